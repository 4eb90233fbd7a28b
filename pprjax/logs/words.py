"""Words: what to say of a name that the log does not have, of a path without a recourse, and how much there is."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence

NOT_FOUND = "none was found"
"""The reason of an infeasible path, where nothing is proved."""

NOT_TOLD = "its label says that it ended badly, but nothing in its states tells it from good paths"
"""The reason of a path that is not good and has no recourse, since its states are those of a good one."""

NEAREST = 3
"""Names that are told, at most."""


def unknown_state(name: str, known: Sequence) -> str:
    """That no path visits a state of this name, which states have names like it, and how many there are.

    Args:
        known: the names of all states, S; strings or whole numbers.
    """
    names = [str(other) for other in known]
    folded = {other.casefold(): other for other in reversed(names)}
    near = [folded[other] for other in difflib.get_close_matches(name.casefold(), list(folded), NEAREST)]
    size = counted(len(names), "state")
    hint = f"did you mean {listed(near, 'or')}? The log has {size}" if near else _such(names, size)
    return f"no path of the log visits the state {name!r}; {hint}"


def nearly_equal(names: Sequence) -> list[list[str]]:
    """The groups of names that differ in blanks and capitals alone."""
    alike = defaultdict(list)
    for name in dict.fromkeys(map(str, names)):
        alike[" ".join(name.split()).casefold()].append(name)
    return [group for group in alike.values() if len(group) > 1]


def _such(names: Sequence[str], size: str) -> str:
    such = ":" if len(names) <= NEAREST else ", such as"
    return f"the log has {size}{such} {listed(names[:NEAREST], 'and')}"


def listed(names: Sequence[str], last: str) -> str:
    """Names in quotes, with commas between them, and `last` before the last: 'a', 'b' or 'c'."""
    *before, end = map(repr, names)
    return f"{', '.join(before)} {last} {end}" if before else end


def counted(number: int, name: str) -> str:
    """A number and what it counts: "1 edit", "2 edits", "1,000 edits"."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"
