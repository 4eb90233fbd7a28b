"""Which column of a log says what: as the user names them, or by the names that logs usually have."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pprjax.errors import UserError

Names = str | tuple[str, ...]

RESOURCE = "org:resource"
"""XES: who did an event. Often another for each event of a case, so that it is an agent only where it is not."""

LIFECYCLE = "lifecycle:transition"
"""XES: whether an event is the start of an activity, its end or something between."""

STANDARD = {
    "agent": ("agent", RESOURCE),
    "path": ("path", "case:concept:name"),
    "step": ("step", "time:timestamp"),
    "state": ("state", "concept:name"),
}
"""The names by which columns are known that the user does not name; those of XES come second."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of a log's columns; the usual names need not be said."""

    agent: str | None = None
    """the column that says who acted; one row of a path is enough. By default `agent`, or org:resource if each path
    has one alone; without it, or if it is "", everyone is one agent."""
    path: Names | None = None
    """the column with the name of the path, or several, which are joined. By default `path` or case:concept:name."""
    step: str | None = None
    """the column that orders a path's rows: numbers, dates or ISO 8601 times; equal ones keep the order of the rows. By
    default `step` or time:timestamp; without it, the order of the rows."""
    state: Names | None = None
    """the column with the state, or several, which are joined. By default `state` or concept:name."""
    action: str | None = None
    """the column with the action taken there; without one, the action is to go to the next state."""
    reward: str | None = None
    """the column with the reward that it paid; without one, nothing pays."""
    good: str | None = None
    """the column that labels the rows of a path that ended well (true) or not (false)."""
    time_format: str | None = None
    """how the times are written, where ISO 8601 does not: "%d.%m.%Y %H:%M" or "%m/%d/%Y %I:%M %p", in the letters of
    strftime."""
    starts: bool = False
    """keep the events whose lifecycle:transition is `start`, which are left out where others are there."""
    bins: tuple[str, ...] = ()
    """turn numbers of the state's columns into states: `column=k`, k bins of equally many rows, or `column=1,5,10`, the
    edges between them."""

    def named(self) -> dict[str, tuple[str, ...]]:
        """The columns that are named, one or several for each."""
        values = {name: getattr(self, name) for name in NAMES}
        return {name: (v,) if isinstance(v, str) else tuple(v) for name, v in values.items() if v}

    def found_in(self, files: Sequence[tuple[str, Sequence[str]]]) -> Columns:
        """The same columns, and the standard ones where this names none.

        Args:
            files: of each file, its name and those of its columns.

        Raises:
            ValueError: a column that is named or needed is not there, or stands in some of the files only.
        """
        found = {}
        for name, usual in STANDARD.items():
            if getattr(self, name) is None:
                found[name] = next((c for c in usual if any(c in valid for _, valid in files)), None)
        columns = dataclasses.replace(self, **found)
        for file, valid in files:
            for name in ("path", "state"):
                if not getattr(columns, name):
                    usual = " nor ".join(map(repr, STANDARD[name]))
                    raise UserError(
                        f"{name}: {file} has no column {usual}; name it, --{name} or Columns({name}=…); {_has(valid)}"
                    )
            for name, wanted in columns.named().items():
                for column in wanted:
                    if column not in valid:
                        raise UserError(f"{name}: {file} has no column {column!r}; {_has(valid)}")
        return columns


NAMES = tuple(
    field.name for field in dataclasses.fields(Columns) if field.name not in ("time_format", "starts", "bins")
)
"""What a column may say."""


def _has(columns: Sequence[str]) -> str:
    return f"it has {', '.join(map(repr, columns))}"
