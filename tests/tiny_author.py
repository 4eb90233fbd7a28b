"""An author of a language of eight letters, trained in a moment."""

from pprjax_envs.text import corpus as text_corpus
from pprjax_envs.text import training, transformer

SHAPE = transformer.Architecture(width=16, layers=2, heads=2, feed_forward=16)
SMALL = training.Training(vocabulary=12, steps=8, rows=4, learning_rate=1e-2)
LANGUAGE = text_corpus.Corpus(  # after each word one of two, the first of them three times in four
    "language",
    tuple(tuple("abcdefgh"[(i + j + (i * j % 4 == 3)) % 8] for j in range(3 + i % 5)) for i in range(400)),
)
