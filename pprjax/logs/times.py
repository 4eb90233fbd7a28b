"""What orders the rows of a path: numbers and times of every kind, made comparable without loss.

A step becomes its kind, a whole part and a rest below 1: of a number, or of the seconds since 1970. So nanoseconds
and large numbers keep their order, which one float would lose.
"""

from __future__ import annotations

import re

import polars as pl

from pprjax.errors import UserError

KIND, WHOLE, REST = "kind", "whole", "rest"
"""The columns that a step becomes."""

NUMBER, TIME, ZONED, CLOCK = "number", "time without a zone", "time with a zone", "time of day"
"""The kinds; those of different kinds can't be ordered."""

ISO = (
    r"(?i)^(?P<date>\d{4}-\d\d-\d\d)(?:[T ](?P<minute>\d\d:\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r" ?(?:(?P<utc>Z|UTC|GMT)|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?)?$"
)
"""A date, or a time as ISO 8601 writes it; a space may stand for the T and before the zone."""

LETTERS = frozenset("aAbBcdDeFfHIjklmMpPrRsSTxXyYzZ%")
"""What strftime writes after a %."""

UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def ordered(steps: pl.Series, time_format: str | None = None) -> pl.DataFrame:
    """The three columns of steps; the kind is null where nothing can be ordered by one.

    Args:
        time_format: how text tells a time, in the letters of strftime; None: as ISO 8601 does, or it is a number.

    Raises:
        ValueError: time_format tells no time.
    """
    if steps.dtype.is_numeric() or steps.dtype.is_temporal():
        return steps.to_frame("step").select(_of_type(pl.col("step"), steps.dtype))
    text = steps.cast(pl.String, strict=False).str.strip_chars()
    if time_format is not None:
        moments = _read_as(text, time_format)
        return moments.to_frame("step").select(_of_type(pl.col("step"), moments.dtype))
    parts = text.str.extract_groups(ISO).struct.unnest()  # once: an expression would do it for each use of a part
    return parts.with_columns(text.alias("text")).with_columns(_moment()).select(_of_text())


def _read_as(text: pl.Series, time_format: str) -> pl.Series:
    """The times that text tells; null where it is written in another way."""
    letters = set(re.findall(r"%[-.]?\d?(.)", time_format))
    if not letters or letters - LETTERS:
        wrong = f"%{min(letters - LETTERS)} is none of them" if letters else "it has none"
        raise UserError(
            f"time_format: expected the letters of strftime, as in '%d.%m.%Y %H:%M', got {time_format!r}: {wrong}"
        )
    if "I" in letters and not letters & set("pP"):
        raise UserError(f"time_format: expected %p, AM or PM, beside %I, the hour of twelve, got {time_format!r}")
    if letters & set("HIkslTRXrc"):
        return text.str.to_datetime(time_format, strict=False, time_unit="us")
    return text.str.to_date(time_format, strict=False)


def _of_type(raw: pl.Expr, dtype: pl.DataType) -> list[pl.Expr]:
    if isinstance(dtype, pl.Datetime):
        return _split(raw.to_physical(), UNITS[dtype.time_unit], TIME if dtype.time_zone is None else ZONED)
    if isinstance(dtype, pl.Duration):
        return _split(raw.to_physical(), UNITS[dtype.time_unit], NUMBER)
    if dtype == pl.Date:
        return _split(raw.to_physical().cast(pl.Int64) * 86_400, 1, TIME)
    if dtype == pl.Time:
        return _split(raw.to_physical(), UNITS["ns"], CLOCK)
    if dtype.is_integer():
        return _split(raw.cast(pl.Int64, strict=False), 1, NUMBER)
    return _columns(*_number(raw.cast(pl.Float64, strict=False)), NUMBER)


def _split(physical: pl.Expr, unit: int, kind: str) -> list[pl.Expr]:
    return _columns(physical // unit, (physical % unit).cast(pl.Float64) / unit, kind)


def _columns(whole: pl.Expr, rest: pl.Expr, kind: str) -> list[pl.Expr]:
    known = pl.when(whole.is_not_null() & rest.is_not_null()).then(pl.lit(kind))
    return [known.alias(KIND), whole.cast(pl.Int64).alias(WHOLE), rest.alias(REST)]


def _number(value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    finite = pl.when(value.is_finite()).then(value)
    whole = pl.when(finite < 0).then(finite.ceil()).otherwise(finite.floor())  # to zero, since then the rest is exact
    return whole.cast(pl.Int64, strict=False), finite - whole


def _moment() -> list[pl.Expr]:
    """Of the parts of a time, the seconds since 1970 in UTC and whether it has a zone."""
    clock = pl.concat_str(pl.col("minute").fill_null("00:00"), pl.col("second").fill_null("00"), separator=":")
    moment = pl.concat_str(pl.col("date"), clock, separator=" ")
    seconds = moment.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms").dt.epoch("s")
    hours, minutes = pl.col("hours").cast(pl.Int64).fill_null(0), pl.col("minutes").cast(pl.Int64).fill_null(0)
    east = pl.when(pl.col("sign") == "-").then(-1).otherwise(1) * (3600 * hours + 60 * minutes)
    zoned = pl.col("utc").is_not_null() | pl.col("sign").is_not_null()
    exact = pl.col("text").cast(pl.Int64, strict=False)  # a float would lose the last digits of a long number
    number = pl.col("text").cast(pl.Float64, strict=False)
    return [(seconds - east).alias("seconds"), zoned.alias("zoned"), exact.alias("exact"), number.alias("number")]


def _of_text() -> list[pl.Expr]:
    exact, seconds = pl.col("exact"), pl.col("seconds")
    trunk, over = _number(pl.col("number"))
    fraction = pl.concat_str(pl.lit("0."), pl.col("fraction").fill_null("0")).cast(pl.Float64)
    is_number = exact.is_not_null() | trunk.is_not_null()
    kind = pl.when(is_number).then(pl.lit(NUMBER)).when(seconds.is_not_null() & pl.col("zoned")).then(pl.lit(ZONED))
    kind = kind.when(seconds.is_not_null()).then(pl.lit(TIME))
    rest = pl.when(exact.is_not_null()).then(0.0).when(is_number).then(over).otherwise(fraction)
    return [kind.alias(KIND), pl.coalesce(exact, trunk, seconds).alias(WHOLE), rest.alias(REST)]
