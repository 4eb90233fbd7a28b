"""Years of two cities out of a file of daily temperatures.

The layout is that of Kaggle's "Daily Temperature of Major Cities": Region, Country, State, City, Month, Day, Year,
AvgTemperature (°F), with a header or without. The file is read line by line, so its size does not matter, and only
lines that name one of the cities are taken apart.
"""

from __future__ import annotations

import calendar
import csv
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from flax import struct

from pprjax.errors import UserError
from pprjax_envs.temperature.years import Years

COLUMNS = ("Region", "Country", "State", "City", "Month", "Day", "Year", "AvgTemperature")
MISSING = -99.0
COLDEST, HOTTEST = -130.0, 140.0  # °F, beyond what was ever measured
MIN_DAYS = 20
"""Days with a temperature that a month needs; a year needs twelve such months."""


@struct.dataclass
class Dropped:
    """What was left out of a file, and why: counts by reason."""

    rows: dict[str, int]  # of the two cities
    years: dict[str, list[int]]  # incomplete years of each city

    def __str__(self) -> str:
        parts = [f"{count:,} {reason}" for reason, count in self.rows.items()]
        parts += [f"{city}'s incomplete {', '.join(map(str, years))}" for city, years in self.years.items() if years]
        return "dropped " + ("nothing" if not parts else "; ".join(parts))


def read_years(path: str | os.PathLike, cities: tuple[str, str]) -> tuple[Years, Dropped]:
    """Monthly means of every complete year of two cities, and what was dropped on the way.

    These are dropped: rows with too few or too many columns, with bad numbers, with no temperature (-99) or an
    impossible one, with a date that does not exist (day 0), in years 200 and 201, and second rows of a day. Then all
    days of a place that has fewer than 20, which a slip in a line makes; then years in which a month has fewer than 20
    days. Bytes that are not UTF-8 are read as replacement characters.

    Args:
        path: a CSV file, with its header or without; other columns' order is taken from the header.
        cities: two names. Where two places share one, "City, State" or "City, Country" tells them apart.

    Raises:
        OSError: the file can't be read.
        ValueError: the two cities are one, the header lacks a column, a name is that of several places, or a city has
            fewer than two complete years; the message says what was dropped.
    """
    first, second = (city.strip() for city in cities)
    if not first or not second or first.casefold() == second.casefold():
        raise UserError(f"cities: expected two different names, got {first!r} and {second!r}")
    wanted = [_Place(city) for city in (first, second)]
    dropped: Counter[str] = Counter()
    with Path(path).open("rb") as file:
        head = file.readline()
        header = _header(_split(head))
        columns = COLUMNS if header is None else header
        for line in file if header is not None else itertools.chain([head], file):
            lowered = line.lower()
            for place in wanted:
                if place.key in lowered:
                    _take(_split(line), columns, place, dropped)
    for place in wanted:
        for where in [where for where, found in place.seen.items() if len(found) < MIN_DAYS]:
            dropped["rows of places with hardly any"] += len(place.seen.pop(where))  # as a slip of the pen makes them
        if len(place.seen) > 1:
            places = "; ".join(sorted(", ".join(filter(None, where)) for where in place.seen))
            raise UserError(
                f"cities: {place.city!r} is the name of several places ({places}); write City, State or City, Country"
            )

    incomplete: dict[str, list[int]] = {}
    degrees = []
    for city, place in zip((first, second), wanted, strict=True):
        means, incomplete[city] = _means(next(iter(place.seen.values()), {}))
        degrees.append(means)
    report = Dropped(rows=dict(sorted(dropped.items())), years=incomplete)
    for city, means in zip((first, second), degrees, strict=True):
        if len(means) < 2:
            raise UserError(f"cities: expected at least 2 complete years of {city}, got {len(means)} ({report})")
    return Years(cities=(first, second), degrees=tuple(degrees), source=Path(path).name), report


class _Place:
    """A city as the user named it, and the places of that name seen so far."""

    def __init__(self, name: str):
        self.city, _, where = (part.strip() for part in name.partition(","))
        self.where = where.casefold()
        self.key = self.city.lower().encode()
        self.seen: dict[tuple[str, str], dict[tuple[int, int, int], float]] = {}  # each one's days

    def fits(self, city: str, state: str, country: str) -> bool:
        if city.casefold() != self.city.casefold():
            return False
        return not self.where or self.where in (state.casefold(), country.casefold())


def _take(
    row: list[str],
    columns: Sequence[str],
    place: _Place,
    dropped: Counter[str],
) -> None:
    """Enter one row of the file under its day, or count why it was dropped."""
    text = {name: value.strip() for name, value in zip(columns, row, strict=False)}
    if not place.fits(text.get("City", ""), text.get("State", ""), text.get("Country", "")):
        return
    if len(row) != len(columns):
        dropped["rows with missing or extra columns"] += 1
        return
    days = place.seen.setdefault((text["State"], text["Country"]), {})
    try:
        month, day, year = (int(text[name]) for name in ("Month", "Day", "Year"))
        degrees = float(text["AvgTemperature"])
    except ValueError:
        dropped["rows with bad numbers"] += 1
        return
    reason = _reason(month, day, year, degrees)
    if reason is None and (year, month, day) in days:
        reason = "duplicate days"
    if reason is not None:
        dropped[reason] += 1
        return
    days[year, month, day] = degrees


def _reason(month: int, day: int, year: int, degrees: float) -> str | None:
    """Why a row is dropped; None: it is not."""
    if year in (200, 201):
        return "rows in years 200 and 201"
    if day == 0:
        return "rows with day 0"
    if not (1700 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return "rows with dates that do not exist"
    if degrees == MISSING:
        return "days without a temperature (-99)"
    if not COLDEST <= degrees <= HOTTEST:
        return "rows with impossible temperatures"
    return None


def _means(days: dict[tuple[int, int, int], float]) -> tuple[np.ndarray, list[int]]:
    """Monthly means of the complete years, float[N, 12], and the incomplete years."""
    months: dict[tuple[int, int], list[float]] = {}
    for (year, month, _), degrees in days.items():
        months.setdefault((year, month), []).append(degrees)
    means, incomplete = [], []
    for year in sorted({year for year, _ in months}):
        of_year = [months.get((year, month), []) for month in range(1, 13)]
        if all(len(month) >= MIN_DAYS for month in of_year):
            means.append([np.mean(month) for month in of_year])
        else:
            incomplete.append(year)
    return np.array(means, float).reshape(-1, 12), incomplete


def _header(row: list[str]) -> tuple[str, ...] | None:
    """The columns that a header names, in our spelling; None: this is no header."""
    spelling = {name.casefold(): name for name in COLUMNS}
    names = tuple(spelling.get(name.strip().strip("\ufeff").casefold(), name) for name in row)
    if "City" not in names and "AvgTemperature" not in names:
        return None
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        raise UserError(f"data: the header lacks {', '.join(lacking)}; expected {', '.join(COLUMNS)}")
    return names


def _split(line: bytes) -> list[str]:
    text = line.decode("utf-8", errors="replace").replace("\0", "\ufffd").rstrip("\r\n")
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # a field of more than 128 kB
        return text.split(",")
