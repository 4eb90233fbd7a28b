"""Judges of years that nothing was made for. They read degrees, and were trained on years of their own.

PPR is optimised against one classifier, and may fool it alone. These say whether others agree.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from flax import struct
from jaxtyping import Float, Int

from pprjax_envs.temperature.years import COMMON_SHARE, DEVIATIONS, NORMALS, Years


class YearJudge(Protocol):
    """Tells which of two cities a year is of."""

    @property
    def name(self) -> str: ...

    def probs(self, degrees: Float[np.ndarray, "N 12"]) -> Float[np.ndarray, "N 2"]:
        """The probability of either city for each year, in °F."""
        ...


@struct.dataclass
class Bayes:
    """Bayes' rule with a normal distribution of each city's years, and even odds before a year is seen.

    Any two months of a year correlate by COMMON_SHARE, as in `simulate`.
    """

    means: np.ndarray  # float[2, 12], °F
    deviations: np.ndarray  # float[2, 12], °F, from year to year
    name: str = struct.field(pytree_node=False, default="Bayes")

    @classmethod
    def of_the_simulator(cls, cities: tuple[str, str]) -> Bayes:
        """With the very distributions that `simulate` draws from."""
        return cls(means=np.array([NORMALS[c] for c in cities]), deviations=np.array([DEVIATIONS[c] for c in cities]))

    @classmethod
    def fitted(cls, years: Years) -> Bayes:
        """With the means and deviations of these years; a deviation is at least 1 °F, since years may be few."""
        return cls(
            means=np.stack([degrees.mean(0) for degrees in years.degrees]),
            deviations=np.stack([np.maximum(degrees.std(0, ddof=1), 1.0) for degrees in years.degrees]),
        )

    def probs(self, degrees: Float[np.ndarray, "N 12"]) -> Float[np.ndarray, "N 2"]:
        correlation = COMMON_SHARE + (1 - COMMON_SHARE) * np.eye(self.means.shape[1])
        inverse = np.linalg.inv(correlation)
        z = (np.asarray(degrees, float)[:, None] - self.means) / self.deviations
        log_density = -0.5 * np.einsum("ncm,mk,nck->nc", z, inverse, z) - np.log(self.deviations).sum(1)
        odds = np.exp(log_density - log_density.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)


@struct.dataclass
class NearestYears:
    """The shares of the cities among the k nearest of its years, by the Euclidean distance in °F."""

    degrees: np.ndarray  # float[N, 12], °F
    labels: np.ndarray  # int[N], 0 or 1
    k: int = struct.field(pytree_node=False, default=5)

    @classmethod
    def among(cls, years: Years) -> NearestYears:
        """Of these years, which must be at least five."""
        counts = [len(degrees) for degrees in years.degrees]
        return cls(degrees=np.concatenate(years.degrees), labels=np.repeat([0, 1], counts))

    @property
    def name(self) -> str:
        return f"{self.k}-NN"

    def probs(self, degrees: Float[np.ndarray, "N 12"]) -> Float[np.ndarray, "N 2"]:
        distances = np.linalg.norm(np.asarray(degrees, float)[:, None] - self.degrees, axis=-1)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : self.k]
        second = self.labels[nearest].mean(1)
        return np.stack([1 - second, second], 1)


def accuracy(judge: YearJudge, degrees: Float[np.ndarray, "N 12"], labels: Int[np.ndarray, " N"]) -> float:
    """The share of the years that it takes for their own city's."""
    return float((judge.probs(degrees).argmax(1) == labels).mean())
