"""Graders of sentences that had no part in choosing them, and a paired bootstrap between two ways of writing.

They are fitted to the half of each corpus that no author has seen: a classifier of style, which says whose a sentence
is, and a language model of another kind than the authors.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from jaxtyping import Float
from scipy import optimize, sparse

BUCKETS = 2**17
"""Columns of the classifier's features, which words and pairs of words share by their hashes."""

LENGTH = 10
"""Words of a sentence that the classifier is fitted to: those of rewritings are no more."""

DISCOUNT = 0.75
"""Of each count in Kneser and Ney's estimate."""

Words = Sequence[str]


@dataclass(frozen=True)
class Style:
    """A logistic regression over words and pairs of words: whether the second author wrote a sentence."""

    weights: Float[np.ndarray, " F"]
    accuracy: float  # on a tenth of its sentences, which it was not fitted to

    def probs(self, sentences: Sequence[Words]) -> Float[np.ndarray, " N"]:
        """The probability that the second author wrote each."""
        return _logistic(features(sentences) @ self.weights)


def style(first: Sequence[Words], second: Sequence[Words], *, strength: float = 1.0) -> Style:
    """Fitted to sentences of two authors, which count the same, whichever wrote more.

    Args:
        strength: of the squared weights, beside the summed losses.
    """
    sentences = [words[:LENGTH] for words in (*first, *second)]
    label = np.repeat([0.0, 1.0], [len(first), len(second)])
    held = np.arange(len(label)) % 10 == 0
    weight = np.where(label == 1.0, len(label) / (2 * len(second)), len(label) / (2 * len(first)))
    matrix = features(sentences)
    known, target, share = matrix[~held], label[~held], weight[~held]

    def loss(weights):
        logits = known @ weights
        losses = np.logaddexp(0.0, logits) - target * logits
        slope = known.T @ (share * (_logistic(logits) - target)) + strength * weights
        return share @ losses + 0.5 * strength * weights @ weights, slope

    found = optimize.minimize(loss, np.zeros(BUCKETS + 1), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    right = (_logistic(matrix[held] @ found.x) > 0.5) == (label[held] == 1.0)
    return Style(found.x, float(np.average(right, weights=weight[held])))


def features(sentences: Sequence[Words]) -> sparse.csr_matrix:
    """Which words and pairs of words each sentence has; the last column is 1."""
    rows, columns = [], []
    for row, words in enumerate(sentences):
        pieces = {*words, *map(" ".join, itertools.pairwise(words))}
        found = {crc32(piece.encode()) % BUCKETS for piece in pieces} | {BUCKETS}
        rows += [row] * len(found)
        columns += found
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(sentences), BUCKETS + 1))


def _logistic(logits: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    return 0.5 * (1.0 + np.tanh(0.5 * logits))


class KneserNey:
    """A trigram model with interpolated, absolutely discounted counts (Kneser and Ney 1995; Chen and Goodman 1999).

    A word that it does not know shares the probability of one more word with all others of that kind.
    """

    def __init__(self, sentences: Sequence[Words]):
        self.counts = [collections.Counter() for _ in range(3)]  # of n-grams: how often; of shorter: after how many
        trigrams = collections.Counter()
        for words in sentences:
            padded = ("<s>", "<s>", *words, "</s>")
            trigrams.update(zip(padded, padded[1:], padded[2:], strict=False))
        self.counts[2] = trigrams
        for order in (2, 1):
            self.counts[order - 1].update(gram[1:] for gram in self.counts[order])
        self.totals, self.kinds = ([collections.Counter() for _ in range(3)] for _ in range(2))
        for order, counts in enumerate(self.counts):
            for gram, count in counts.items():
                self.totals[order][gram[:-1]] += count
                self.kinds[order][gram[:-1]] += 1

    def log_prob(self, words: Words) -> float:
        """The mean log P of a sentence's words and its end."""
        padded = ("<s>", "<s>", *words, "</s>")
        grams = list(zip(padded, padded[1:], padded[2:], strict=False))
        return sum(math.log(self._prob(gram)) for gram in grams) / len(grams)

    def _prob(self, gram: tuple[str, ...]) -> float:
        order, before = len(gram) - 1, gram[:-1]
        shorter = self._prob(gram[1:]) if order else 1.0 / (len(self.counts[0]) + 1)
        total = self.totals[order][before]
        if not total:
            return shorter
        left = DISCOUNT * self.kinds[order][before] / total
        return max(self.counts[order][gram] - DISCOUNT, 0.0) / total + left * shorter


def repeats(words: Words) -> bool:
    """Whether a pair of words stands in a sentence twice."""
    pairs = list(itertools.pairwise(words))
    return len(set(pairs)) < len(pairs)


def compared(
    ours: Float[np.ndarray, " N"], theirs: Float[np.ndarray, " N"], *, draws: int = 10_000
) -> dict[str, float]:
    """The means of paired figures, and the range of 95 % of their difference over resampled pairs."""
    difference = np.asarray(ours, float) - np.asarray(theirs, float)
    drawn = difference[np.random.default_rng(0).integers(0, len(difference), (draws, len(difference)))].mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"ours": float(np.mean(ours)), "theirs": float(np.mean(theirs)), "low": float(low), "high": float(high)}
