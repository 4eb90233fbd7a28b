"""Rungs: for each path of a log the best recourse for each number of edits, from the fewest that meet the goal on."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from pprjax.ladder import tolerated
from pprjax.logs.edits import alignments
from pprjax.logs.fitted import Fitted, named
from pprjax.paths import Paths
from pprjax.result import Frontier, Recourse


@dataclasses.dataclass(frozen=True)
class Rungs:
    """F rungs, path by path, and of each path the fewest edits first."""

    path: Int[np.ndarray, " F"]  # the number of its original
    paths: Paths  # F
    distance: Int[np.ndarray, " F"]
    value: Float[np.ndarray, " F"]  # v = R_goal + λ_policy·R_policy
    goal: Float[np.ndarray, " F"]  # R_goal
    policy: Float[np.ndarray, " F"]  # mean log P_A of an action
    proved: Bool[np.ndarray, " F"]  # no path of as few edits has a larger v, and none of fewer one than the rung before
    chosen: Bool[np.ndarray, " F"]  # the one that has the largest R

    @classmethod
    def of(
        cls, every: Frontier, chosen: Recourse, originals: Int[np.ndarray, " M"], rows: Int[np.ndarray, " M"]
    ) -> Rungs:
        """Those of the paths of numbers rows[i], which are the rows of original originals[i] of a frontier."""
        first, last = (np.searchsorted(every.index, originals, side=side) for side in ("left", "right"))
        counts = last - first
        row = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        its_own = np.repeat(originals, counts)
        return cls(
            path=np.repeat(rows, counts),
            paths=every.paths[row],
            distance=every.distance[row],
            value=every.value[row],
            goal=every.scores.goal[row],
            policy=every.scores.policy[row],
            proved=_proved(every)[row],
            chosen=chosen.scores.distance[its_own] == every.distance[row],
        )

    @classmethod
    def none(cls) -> Rungs:
        """No rung."""
        whole, real, flag = np.zeros(0, np.int32), np.zeros(0), np.zeros(0, bool)
        paths = Paths(np.zeros((0, 1), np.int32), whole, np.zeros((0, 0), np.int32))
        return cls(whole, paths, whole, real, real, real, flag, flag)

    def to_frame(self, fitted: Fitted, agents: pl.Series, names: pl.Series, originals: Paths) -> pl.DataFrame:
        """One row a rung.

        Args:
            agents, names, originals: of all paths, by their numbers.
        """
        lengths = np.asarray(self.paths.lengths)
        return pl.DataFrame(
            {
                "agent": agents[self.path],
                "path": names[self.path],
                "distance": self.distance.astype(np.int32),
                "chosen": self.chosen,
                "proved": self.proved,
                "value": self.value.astype(float),
                "reward_after": self.goal.astype(float),
                "s_policy": self.policy.astype(float),
                "recourse": named(np.asarray(self.paths.symbols), lengths, fitted.states),
                "actions": named(np.asarray(self.paths.actions), lengths - 1, fitted.actions),
                "edits": pl.Series(alignments(originals[self.path], self.paths), dtype=pl.String),
            }
        )


def _proved(every: Frontier) -> Bool[np.ndarray, " F"]:
    """Which points of a frontier are the best of as few edits, with no point missing before them."""
    before = np.where(np.diff(every.index, prepend=-1) != 0, -np.inf, np.roll(every.value, 1))
    fewer = every.limit[every.index, np.maximum(every.distance - 1, 0)]
    return (every.bound == every.value) & ((every.distance == 0) | (fewer <= tolerated(before)))
