"""Advice: what a recourse does otherwise, and how good it is, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from pprjax.logs.log import CLOSE
from pprjax.logs.words import counted

RUNGS = 5
"""How many rungs of a ladder are shown, beside the chosen one."""


def advice(row: dict) -> str:
    """What to do otherwise, in a sentence: after which states the recourse leaves its original, and what it does there.

    Args:
        row: of the table of recourses, with `original`, `recourse` and its `actions`, the `edits` between them, and
            the `reason` where there are none.
    """
    parts = []
    for after, added, dropped in _departures(row["original"], _done(row), row["edits"]):
        where = "at the start" if after is None else f"after {after}"
        if added:
            instead = f" instead of {', '.join(dropped)}" if dropped else ""
            parts.append(f"{where}: {', then '.join(added)}{instead}")
        else:
            parts.append(f"{where}: without {', '.join(dropped)}")
    if not parts:
        return f"Nothing to do otherwise: {row.get('reason') or 'the path is as good as any'}."
    edits = counted(sum(edit != "=" for edit in row["edits"]), "edit")
    return f"What to do otherwise: {'; '.join(parts)} ({edits})."


def custom(row: dict, steps: list[dict]) -> str:
    """How often the agent itself does what the recourse does otherwise, in a sentence; "" where nobody can say. Of
    several steps that the original has nowhere, that which the agent takes most seldom.

    Where each action is called like the next state, as in a log without actions, to go there is what is done.

    Args:
        steps: of the agent: how often (`count`) it took each `action` in each `state`.
    """
    own, every, times = set(pairwise(row["original"])), Counter(), Counter()
    for step in steps:  # once: a report asks this of thousands of paths
        every[step["state"]] += step["count"]
        times[step["state"], step["action"]] += step["count"]
    taken = zip(pairwise(row["recourse"]), row["actions"], strict=True)
    new = [(state, action) for (state, after), action in taken if every[state] and (state, after) not in own]
    if not new:
        return ""
    state, action = rarest = min(new, key=lambda step: times[step] / every[step[0]])
    done = f"went to {spelled(action)} next" if _went(row) else f"did {spelled(action)}"
    done = "ended" if action == CLOSE else done
    return f"After {spelled(state)}, {row['agent']} {done} {times[rarest]:,} of {counted(every[state], 'time')}."


def _went(row: dict) -> bool:
    """Whether each action is called like the next state."""
    return list(map(str, row["actions"])) == list(map(str, row["recourse"][1:]))


def _done(row: dict) -> list[str]:
    """The states of the recourse, each with the action that leads there, unless to go there is what is done."""
    first, *others = map(spelled, row["recourse"])
    if _went(row):
        return [first, *others]
    return [first, *(f"{spelled(act)} → {state}" for act, state in zip(row["actions"], others, strict=True))]


def closer(row: dict, rungs: list[dict], limits: str = "") -> str:
    """What fewer edits would do, or that none will, where that is proved; "" where nobody can say.

    Args:
        rungs: of the path, the fewest edits first.
        limits: what a recourse keeps, in words, see `outputs.limits`.
    """
    if not rungs:
        return ""
    fewest = rungs[0]
    if fewest["distance"] < row["distance"]:
        some = "The fewest" if fewest["proved"] else "Fewer"
        return f"{some} edits that reach the goal: {shorter(fewest)} ({counted(fewest['distance'], 'edit')})."
    kept = f" and keeps {limits}" if limits else ""
    return f"Nothing closer reaches the goal{kept}." if fewest["proved"] else ""


def shown_of(rungs: list[dict]) -> list[dict]:
    """The first rungs of a ladder and the chosen one."""
    return [rung for i, rung in enumerate(rungs) if i < RUNGS or rung["chosen"]]


def shorter(row: dict) -> str:
    """The advice alone, without how many edits it is."""
    told = advice(row).removeprefix("What to do otherwise: ")
    return told.rpartition(" (")[0] or told


def proof(row: dict) -> str:
    """How good the recourse is, as far as that is proved, and how likely."""
    gap, chance, share = row["gap"], row["probability"], row["reliability"]
    likely = "" if chance is None or chance == 1 else f"; the world leads along it with probability {chance:.3g}"
    likely += "" if share is None else f"; its actions meet the goal in {100 * share:.3g} % of fresh runs"
    if gap is None:
        return likely
    return f", {f'within {math.ceil(gap * 1e4) / 100:g} % of the best' if gap > 0 else 'proved best'}{likely}"


def spelled(name: object) -> str:
    """A state's name, in quotes where a comma in it, or a blank at an end, would mislead."""
    text = str(name)
    return f'"{text}"' if "," in text or text != text.strip() else text


def numbered(path: list) -> list[str]:
    """The names of a path's states, from their second time on with a number: pay, exit, pay (2)."""
    seen, names = Counter(), []
    for name in map(spelled, path):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _departures(original: list, recourse: list, edits: str) -> list[tuple[str | None, list[str], list[str]]]:
    """Where edits follow one another: the state before them that both paths share, those added and those dropped.

    States of the original are numbered as `numbered` does; those of the recourse stand as they are.
    """
    old, new = iter(numbered(original)), iter(recourse)
    found, after, added, dropped = [], None, [], []
    for edit in [*edits, "="]:
        if edit == "=":
            if added or dropped:
                found.append((after, added, dropped))
            added, dropped, after = [], [], next(old, None)
            next(new, None)
            continue
        if edit != "+":
            dropped.append(next(old))
        if edit != "-":
            added.append(next(new))
    return found
