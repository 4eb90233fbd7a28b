"""What the text command and its experiment have in common; imports nothing that is slow to import."""

from pprjax.config import Config

PAPER = {
    "positive": ("She was sad", "The cup was empty", "The book on the table is boring"),
    "negative": ("I am in love", "The world is beautiful", "The magicians enjoy the magic"),
}
"""The paper's own sentences, by the sentiment that they should get."""

MAX_WORDS = 10
"""The largest number of words of a rewriting."""

SETTINGS = Config(lambda_path=10.0, lambda_policy=0.125)
"""λ_policy weighs the author's voice against the judge's conviction, λ_path both against closeness: it chooses the
point of the ladder that stands for a sentence. With these a model that has seen no author finds the chosen rewritings
about as perplexing as the originals; with more voice they keep less of a sentence, with less they fit their places
less."""
