"""What the text command and its experiment have in common; imports nothing that is slow to import."""

from pprjax.config import Config

PAPER = {
    "positive": ("She was sad", "The cup was empty", "The book on the table is boring"),
    "negative": ("I am in love", "The world is beautiful", "The magicians enjoy the magic"),
}
"""The paper's own sentences, by the sentiment that they should get."""

MAX_WORDS = 10
"""The largest number of words of a rewriting."""

NUM_OFFERED = 64
"""m: how many of the author's likeliest next words are offered at each step."""

LAMBDAS = (10.0, 0.1)
"""λ_path: keep most of the sentence, or little."""

SETTINGS = Config(
    habit="link",
    lambda_policy=0.1,
    c_e=0.0,
    epsilon_end=0.2,
    iterations=80,
    num_paths=64,
    num_best=8,
    updates=4,
    batch_size=128,
    width=32,
    edited_lanes=True,
)
"""A quarter of the paths sample from P_A, so that the others may explore evenly: what turns a sentence is often a word
that its author finds unlikely there. λ_policy weighs the author's voice against the sentence. With 0.1 the optimum at
λ_path = 10 changes one word, whoever writes; with 0.5 it writes anew what its author would not say."""
