"""Years of monthly mean temperatures: simulated, augmented, and split for training and test."""

from __future__ import annotations

import dataclasses

import numpy as np
from flax import struct
from jaxtyping import Float, Int

from pprjax.errors import UserError

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

NORMALS = {
    "Rome": (46.6, 47.0, 51.5, 56.5, 64.1, 71.2, 75.6, 76.2, 69.5, 63.0, 55.1, 48.8),
    "Columbia": (45.9, 48.6, 56.2, 64.4, 72.2, 78.4, 81.0, 80.3, 74.7, 64.1, 53.9, 47.1),
}
"""Monthly means in °F, 1995-2013, of Rome and of Columbia, South Carolina.

Source: University of Dayton, average daily temperature archive."""

DEVIATIONS = {
    "Rome": (2.5, 2.7, 1.9, 1.9, 1.8, 1.8, 1.7, 1.9, 1.9, 1.9, 1.9, 2.2),
    "Columbia": (3.2, 3.0, 3.8, 2.5, 2.3, 2.4, 1.7, 1.9, 1.9, 2.2, 2.9, 4.7),
}
"""Their standard deviations from year to year, from the same source."""

COMMON_SHARE = 0.1
"""The share of a month's variance that the whole year has in common: the correlation of any two months."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """Which temperature a symbol stands for: symbol i is low + i·resolution, in °F.

    Raises:
        ValueError: resolution is not above 0, or high is not above low.
    """

    low: float = 30.0  # °F
    high: float = 95.0  # °F
    resolution: float = 1.0  # °F a symbol

    def __post_init__(self):
        if not (np.isfinite(self.resolution) and self.resolution > 0):
            raise UserError(f"resolution: expected a number of °F above 0, got {self.resolution}")
        if not self.low + self.resolution <= self.high < np.inf:
            raise UserError(
                f"low, high: expected at least two symbols of {self.resolution} °F, got {self.low} to {self.high}"
            )

    @property
    def num_symbols(self) -> int:
        return int(np.floor((self.high - self.low) / self.resolution + 1e-9)) + 1

    def encode(self, degrees: Float[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
        """The nearest symbol; the first or the last outside the range."""
        steps = np.round((np.asarray(degrees) - self.low) / self.resolution)
        return np.clip(steps, 0, self.num_symbols - 1).astype(np.int32)

    def decode(self, symbols: Int[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
        """The temperature of each symbol, in °F."""
        return self.low + self.resolution * np.asarray(symbols, float)

    @classmethod
    def covering(cls, degrees: Float[np.ndarray, "*b"], *, margin: float = 4.0, resolution: float = 1.0) -> Scale:
        """The range of these temperatures, `margin` °F wider at either end, in whole degrees."""
        return cls(float(np.floor(np.min(degrees) - margin)), float(np.ceil(np.max(degrees) + margin)), resolution)


@struct.dataclass
class Years:
    """Years of monthly means of two cities. N_c years of city c."""

    cities: tuple[str, str] = struct.field(pytree_node=False)
    degrees: tuple[np.ndarray, np.ndarray]  # float[N_c, 12] each, °F
    source: str = struct.field(pytree_node=False)  # "simulated …" or the name of a file


@struct.dataclass
class Data:
    """Training and test years as temperatures and as symbols; label c is city c."""

    cities: tuple[str, str] = struct.field(pytree_node=False)
    source: str = struct.field(pytree_node=False)
    scale: Scale = struct.field(pytree_node=False)
    train_degrees: np.ndarray  # float[N, 12], °F
    train_labels: np.ndarray  # int32[N]
    test_degrees: np.ndarray  # float[M, 12], °F
    test_labels: np.ndarray  # int32[M]

    @property
    def train_symbols(self) -> Int[np.ndarray, "N 12"]:
        return self.scale.encode(self.train_degrees)

    @property
    def test_symbols(self) -> Int[np.ndarray, "M 12"]:
        return self.scale.encode(self.test_degrees)


def simulate(num_years: int = 40, seed: int = 0) -> Years:
    """Simulated years of Rome and of Columbia: monthly normals plus year-to-year deviations.

    Month m of a year is normal_m + deviation_m·(√ρ·z + √(1 - ρ)·e_m), with z common to the year, e_m the month's own,
    both standard normal, and ρ = COMMON_SHARE.

    Args:
        num_years: of each city, at least 2.

    Raises:
        ValueError: num_years is below 2.
    """
    if num_years < 2:
        raise UserError(f"num_years: expected at least 2 years of a city, got {num_years}")
    rng = np.random.default_rng(seed)
    first, second = NORMALS
    cities = (first, second)

    def draw(city):
        year, month = rng.standard_normal((num_years, 1)), rng.standard_normal((num_years, 12))
        anomaly = np.sqrt(COMMON_SHARE) * year + np.sqrt(1 - COMMON_SHARE) * month
        return np.array(NORMALS[city]) + np.array(DEVIATIONS[city]) * anomaly

    return Years(cities=cities, degrees=tuple(draw(city) for city in cities), source="simulated from monthly normals")


def augment(degrees: Float[np.ndarray, "N 12"], num: int, seed: int = 0) -> Float[np.ndarray, "num 12"]:
    """`num` variants of these years, each month shifted by 1 to 2 °F up or down, the order of its months kept.

    The shifted temperatures are handed out in the order of the unshifted ones, so a month never passes another: the
    coldest stays the coldest. No month moves by more than 2 °F. Years are used in turn.

    Raises:
        ValueError: there is no year, or num is below 0.
    """
    degrees = np.asarray(degrees, float)
    if len(degrees) == 0 or num < 0:
        raise UserError(f"degrees, num: expected at least one year and num ≥ 0, got {len(degrees)} and {num}")
    rng = np.random.default_rng(seed)
    base = degrees[np.arange(num) % len(degrees)]
    shift = rng.uniform(1.0, 2.0, base.shape) * rng.choice([-1.0, 1.0], base.shape)
    rank = np.argsort(np.argsort(base, 1, kind="stable"), 1)
    return np.take_along_axis(np.sort(base + shift, 1), rank, 1)


def split(
    years: Years,
    *,
    num_train: int = 200,
    num_test: int = 20,
    resolution: float = 1.0,
    scale: Scale | None = None,
    seed: int = 0,
) -> Data:
    """Training and test years, half of each city. A quarter of a city's years is held out for the test.

    Only then is each part augmented, so that no test year has a variant among the training years.

    Args:
        num_train, num_test: even numbers of years, at least 2.
        resolution: °F a symbol.
        scale: default: the range of the training years, 4 °F wider at either end.

    Raises:
        ValueError: a number is odd or too small, or a city has fewer than two years.
    """
    for name, value in {"num_train": num_train, "num_test": num_test}.items():
        if value < 2 or value % 2:
            raise UserError(f"{name}: expected an even number of at least 2, half of it a city, got {value}")
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    for city, degrees in zip(years.cities, years.degrees, strict=True):
        if len(degrees) < 2:
            raise UserError(f"years: expected at least 2 complete years of {city}, got {len(degrees)}")
        held_out = min(max(1, len(degrees) // 4), num_test // 2)
        shuffled = degrees[rng.permutation(len(degrees))]
        for name, part, num in (
            ("test", shuffled[:held_out], num_test // 2),
            ("train", shuffled[held_out:], num_train // 2),
        ):
            more = max(num - len(part), 0)
            parts[name].append(np.concatenate([part[:num], augment(part, more, int(rng.integers(2**31)))]))
    train = np.concatenate(parts["train"])
    return Data(
        cities=years.cities,
        source=years.source,
        scale=Scale.covering(train, resolution=resolution) if scale is None else scale,
        train_degrees=train,
        train_labels=np.repeat(np.arange(2, dtype=np.int32), num_train // 2),
        test_degrees=np.concatenate(parts["test"]),
        test_labels=np.repeat(np.arange(2, dtype=np.int32), num_test // 2),
    )


def set_aside(years: Years, every: int = 3) -> tuple[Years, Years]:
    """These years without every third one of each city, and those that were set aside.

    Raises:
        ValueError: a city has fewer than two years left in either part.
    """
    parts: dict[str, list[np.ndarray]] = {"to train and test on": [], "to set aside": []}
    for city, degrees in zip(years.cities, years.degrees, strict=True):
        away = np.arange(len(degrees)) % every == 0
        for purpose, chosen in zip(parts, (degrees[~away], degrees[away]), strict=True):
            if len(chosen) < 2:
                raise UserError(f"years: expected at least 2 years of {city} {purpose}, got {len(chosen)}")
            parts[purpose].append(chosen)
    kept, aside = (dataclasses.replace(years, degrees=tuple(degrees)) for degrees in parts.values())
    return kept, aside
