"""Sentences of letters, which a tiny language model writes and a judge of letters judges."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from pprjax_envs import text

import pprjax

WORDS = ("a", "b", "c", "d")
V = len(WORDS) + 1  # with the end, token 0


@struct.dataclass
class Chain:
    """A language model that looks at the last token alone."""

    logits: jax.Array  # float[V + 1, V]

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, jax.nn.log_softmax(self.logits[state.symbol])


class Letters:
    """One letter a token."""

    num_tokens, end = V, 0
    written = np.arange(V) > 0

    def tokens_of(self, sentence):
        return np.array([1 + WORDS.index(letter) for letter in sentence.lower()], np.int32)

    def text_of(self, tokens):
        return "".join(WORDS[t - 1] for t in map(int, tokens) if t)


class Likes:
    """A judge that likes each b and dislikes each a, by their places."""

    name = "likes b"
    positive, negative = 0.6, 0.4

    def __call__(self, texts):
        votes = [sum((i + 2) * ((c == "b") - (c == "a")) for i, c in enumerate(t)) for t in texts]
        return 1 / (1 + np.exp(-np.array(votes, float) / 4))

    def reached(self, scores, towards):
        return scores >= 0.6 if towards == "positive" else scores <= 0.4


def chain(seed):
    return Chain(jnp.asarray(np.random.default_rng(seed).standard_normal((V + 1, V)), jnp.float32))


def world(seed=0, **options):
    return pprjax.Task(
        text.sentence_env(Letters(), **dict(judge=Likes(), max_words=3) | options), chain(seed), goal=pprjax.reached
    )
