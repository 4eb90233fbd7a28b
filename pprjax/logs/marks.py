"""A world that remembers which of a few of its states, the marks, a path has visited.

With k marks it has S·2^k states: state s, with the bits b of the marks visited so far, is number b·S + s. What depends
on the way and not on the end alone is then told by the final state, so that everything made for finite worlds serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from pprjax.ragged import Ragged
from pprjax.successors import Successors

MAX_MARKS = 2


def visited(states: Int[np.ndarray, "*B T"], marks: Int[np.ndarray, " k"]) -> Int[np.ndarray, "*B T"]:
    """The bits of each state of paths: which marks it and those before it are."""
    bits = ((states[..., None] == marks) << np.arange(len(marks))).sum(-1, dtype=np.int64)
    return np.bitwise_or.accumulate(bits, axis=-1)


def following(
    next_state: Int[np.ndarray, "S A"] | Ragged, marks: Int[np.ndarray, " k"]
) -> Int[np.ndarray, "R A"] | Ragged:
    """Where actions lead in the world that remembers, R = S·2^k; -1 where an action is not available."""
    size, told = next_state.shape[0], next_state.entries if isinstance(next_state, Ragged) else next_state
    bit = visited(np.arange(size)[:, None], marks)[:, 0]
    after = [np.where(told < 0, -1, (b | bit[told]) * size + told) for b in range(2 ** len(marks))]
    if isinstance(next_state, Ragged):
        return Ragged.of(next_state.tiled(len(after)).first, np.concatenate(after))
    return np.concatenate(after)


def chances(found: Successors, marks: Int[np.ndarray, " k"]) -> Successors:
    """P(s' | s, a) in the world that remembers, R = S·2^k states of as many successors. On the host."""
    if not marks.size:
        return found
    found = jax.tree.map(np.asarray, found)
    (size, num_actions), cells = found.shape, found.cells()
    bit = visited(np.arange(size)[:, None], marks)[:, 0]
    states, probs, times = [], [], 2 ** len(marks)
    for b in range(times):
        after = (b | bit[found.states]) * size + found.states
        order = np.lexsort((after, cells))
        states.append(after[order])
        probs.append(found.probs[..., order])
    return found.replace(  # pyright: ignore[reportAttributeAccessIssue]
        first=_again(found.first, times),
        states=np.concatenate(states).astype(np.int32),
        probs=np.concatenate(probs, axis=-1),
        rows=None if found.rows is None else _again(found.rows, times),
        shape=(size * times, num_actions),
    )


def _again(first: Int[np.ndarray, " n+1"], times: int) -> Int[np.ndarray, " m"]:
    """Where rows begin that stand so many times one after the other."""
    starts = first[:-1].astype(np.int64) + int(first[-1]) * np.arange(times)[:, None]
    return np.append(starts, int(first[-1]) * times).astype(np.int32)


class Votes(NamedTuple):
    """How many paths were good and bad, of those to learn from and of those held out; arrays of one shape."""

    good: np.ndarray
    bad: np.ndarray
    held_good: np.ndarray
    held_bad: np.ndarray

    def right(self) -> tuple[np.ndarray, np.ndarray]:
        """How many of either are told right, if good is where more of the first were good than bad."""
        told = self.good > self.bad
        return np.where(told, self.good, self.bad), np.where(told, self.held_good, self.held_bad)


class Told(NamedTuple):
    """What tells good paths from bad ones."""

    marks: np.ndarray  # int32[k]
    good: np.ndarray  # bool[S·2^k], of the final state in the world that remembers
    accuracy: float  # on held-out paths; NaN where there are none


def learn(count: Callable[[np.ndarray], tuple[Votes, np.ndarray, np.ndarray, Votes]], most: int = MAX_MARKS) -> Told:
    """Tell good paths from bad by their final state; and mark a state if that tells better.

    In a final state of the world that remembers, a path is good if more paths were good there than bad. The next mark
    is the state that would tell most of the paths to learn from right, and is kept if the held-out accuracy rises by
    more than its standard error. At the end all paths vote.

    Args:
        count: of marks, the votes of each of the R = S·2^k final states, and those of the paths that end in a state
            `cell` and visit a state `visited`, as cell int[M], visited int[M] and the votes of M.
        most: marks at most.
    """
    marks = np.zeros(0, np.int32)
    votes, cell, state, via = count(marks)
    held = (votes.held_good + votes.held_bad).sum()
    accuracy = votes.right()[1].sum() / held if held else float("nan")
    while len(marks) < most and held:
        here = Votes(*(x[cell] for x in votes))
        around = Votes(*(x - y for x, y in zip(here, via, strict=True)))
        gain, held_gain = (v + a - t for v, a, t in zip(via.right(), around.right(), here.right(), strict=True))
        gains = np.stack([np.bincount(state, weights=x) for x in (gain, held_gain)])
        gains[:, marks] = -1
        best = int(gains[0].argmax())
        better = accuracy + gains[1, best] / held
        if better - accuracy <= np.sqrt(max(accuracy * (1 - accuracy), 1e-12) / held):
            break
        marks, accuracy = np.append(marks, np.int32(best)), better
        votes, cell, state, via = count(marks)
    good = votes.good + votes.held_good > votes.bad + votes.held_bad
    return Told(marks, good, float(accuracy))
