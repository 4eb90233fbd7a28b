"""Answers: what was found for the paths of a frame, and the table that says it in the log's own words."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from pprjax.logs.edits import alignments
from pprjax.logs.fitted import Fitted, named, numbers
from pprjax.logs.log import Log
from pprjax.logs.rungs import Rungs
from pprjax.logs.words import NOT_FOUND, NOT_TOLD, counted
from pprjax.metrics import relative_gap
from pprjax.paths import PAD, Paths
from pprjax.result import Frontier, Recourse

SCORES = ("reward", "goal", "path", "policy", "gap")
"""What is known of a recourse in numbers."""

RELIABILITY = ("reliability", "reliability_error")
"""And where chance decides."""


@dataclasses.dataclass(frozen=True)
class Originals:
    """N whole paths of a log in numbers."""

    paths: Paths
    names: pl.Series  # of the paths, N
    agents: Int[np.ndarray, " N"]
    reward: Float[np.ndarray, " N"]  # R_goal as logged
    met: Bool[np.ndarray, " N"]  # it meets the goal already
    ids: Int[np.ndarray, " N"]  # a number for each that depends on its agent and name alone

    @classmethod
    def of(cls, fitted: Fitted, paths: pl.DataFrame) -> Originals:
        lengths = paths["states"].list.len().to_numpy().astype(np.int32)
        logged = Paths(_padded(paths["states"], fitted.states), lengths, _padded(paths["actions"], fitted.actions))
        reward = paths["rewards"].list.sum().to_numpy()
        magnitude = paths["rewards"].list.eval(pl.element().abs()).list.sum().to_numpy()
        agents = numbers(paths["agent"], fitted.agents).to_numpy()
        met = fitted.met(np.asarray(logged.symbols), reward, magnitude)
        if fitted.learned_goal:  # a label is worth more than what was learned from all of them
            met &= paths["good"].fill_null(True).to_numpy()
        return cls(logged, paths["path"], agents, reward, met, paths["id"].to_numpy())

    def groups(self, *, by_start: bool) -> list[Int[np.ndarray, " M"]]:
        """Of the paths that miss the goal, those of one agent, which may have to begin in the same state as well."""
        missed = np.flatnonzero(~self.met)
        start = np.asarray(self.paths.symbols)[missed, 0] if by_start else np.zeros(len(missed), np.int32)
        _, group = np.unique(np.stack([self.agents[missed], start]), axis=1, return_inverse=True)
        order = np.argsort(group, kind="stable")
        return np.split(missed[order], np.flatnonzero(np.diff(group[order])) + 1) if missed.size else []


def count_met(fitted: Fitted, log: Log) -> int:
    """How many paths of a log meet the goal and keep the rules already."""
    return sum(int(Originals.of(fitted, paths).met.sum()) for paths in log.frames())


class Answers:
    """What was found for N paths, filled group by group."""

    def __init__(self, originals: Originals, max_steps: int):
        size = len(originals.paths)
        self.originals = originals
        self.symbols = np.full((size, max_steps + 1), PAD, np.int32)
        self.actions = np.full((size, max_steps), PAD, np.int32)
        self.lengths = np.zeros(size, np.int32)  # 0: none
        self.distance = np.full(size, -1, np.int32)
        self.numbers = {k: np.full(size, np.nan) for k in (*SCORES, *RELIABILITY)}
        self.likely = np.ones(size)  # that the world leads along the recourse
        self.status = np.where(originals.met, "met", "").astype(object)
        self.method = np.full(size, None, object)
        self.reason = np.full(size, None, object)  # why there is none, or no other
        self.proved = np.zeros(size, bool)  # that there is none, where none was found
        self.rungs: list[Rungs] = []

    def fail(self, path: int, reason: str) -> None:
        """No recourse can be looked for."""
        self.status[path], self.reason[path] = "failed", reason

    def take(
        self, result: Recourse, every: Frontier | None, row: Int[np.ndarray, " M"], rows: Int[np.ndarray, " M"]
    ) -> None:
        """Row row[i] of a Recourse answers path rows[i], and so does what `every` has of original row[i]."""
        if every is not None:
            self.rungs.append(Rungs.of(every, result, row, rows))
        width = result.paths.symbols.shape[1]
        self.symbols[rows, :width] = result.paths.symbols[row]
        self.actions[rows, : width - 1] = np.asarray(result.paths.actions)[row]
        feasible = result.status[row] != "infeasible"
        self.lengths[rows] = np.where(feasible, result.paths.lengths[row], 0)
        self.distance[rows] = result.scores.distance[row]
        for name in ("goal", "path", "policy"):
            self.numbers[name][rows] = getattr(result.scores, name)[row]
        self.numbers["reward"][rows] = np.where(feasible, result.reward[row], np.nan)
        self.status[rows] = result.status[row]
        self.method[rows] = result.method[row]
        self.proved[rows] = np.isneginf(result.bound[row])
        known = np.isfinite(result.bound) & (result.status != "infeasible")
        self.numbers["gap"][rows] = np.where(known, relative_gap(result.reward, result.bound), np.nan)[row]

    def paths(self, rows: Int[np.ndarray, " M"]) -> Paths:
        """The recourses of these paths."""
        return Paths(self.symbols[rows], self.lengths[rows], self.actions[rows])

    def to_frame(self, fitted: Fitted, seed: int) -> pl.DataFrame:
        """One row a path, as `pprjax.recourse_log` says."""
        logged, found, size = self.originals.paths, self.lengths > 0, len(self.lengths)
        edits = np.full(size, None, object)
        edits[found] = alignments(logged[found], Paths(self.symbols[found], self.lengths[found]))
        columns = {name: pl.Series(values, nan_to_null=True) for name, values in self.numbers.items()}
        none = np.where(self.proved, no_path(fitted), NOT_FOUND)
        reason = np.where(self.status == "infeasible", none, self.reason)
        reason = np.where((self.status == "unchanged") & fitted.learned_goal, NOT_TOLD, reason)
        return pl.DataFrame(
            {
                "agent": fitted.agents[self.originals.agents].tolist(),
                "path": self.originals.names,
                "status": self.status.tolist(),
                "method": pl.Series(self.method.tolist(), dtype=pl.String),
                "seed": pl.Series(np.full(size, seed)),
                "reward": columns["reward"],
                "reward_before": self.originals.reward,
                "reward_after": columns["goal"],
                "s_path": columns["path"],
                "s_policy": columns["policy"],
                "distance": pl.Series([None if d < 0 else d for d in self.distance.tolist()], dtype=pl.Int32),
                "gap": columns["gap"],
                "probability": pl.Series(np.where(found, self.likely, np.nan), nan_to_null=True),
                **{name: columns[name] for name in RELIABILITY},
                "original": named(np.asarray(logged.symbols), np.asarray(logged.lengths), fitted.states),
                "recourse": named(self.symbols, self.lengths, fitted.states),
                "actions": named(self.actions, np.maximum(self.lengths - 1, 0), fitted.actions),
                "edits": pl.Series(edits.tolist(), dtype=pl.String),
                "reason": pl.Series(reason.tolist(), dtype=pl.String),
            }
        )

    def to_ladder(self, fitted: Fitted) -> pl.DataFrame:
        """One row a rung: the best recourse of a path for a number of edits, see `pprjax.logs.rungs`."""
        originals = self.originals
        agents = pl.Series(fitted.agents[originals.agents].tolist())
        every = [Rungs.none(), *self.rungs]
        return pl.concat([rungs.to_frame(fitted, agents, originals.names, originals.paths) for rungs in every])


def no_path(fitted: Fitted) -> str:
    """The reason of an infeasible path, where that is proved."""
    asked = {"reaches the goal from here": fitted.goal is not None, "keeps the rules": bool(fitted.rules)}
    wanted = " and ".join(what for what, holds in asked.items() if holds)
    cheap = "" if fitted.max_regret is None else f", each {fitted.least_likely}"
    return f"no path of this world {wanted}, in at most {counted(fitted.max_steps, 'step')}{cheap}"


def _padded(lists: pl.Series, names: np.ndarray) -> Int[np.ndarray, "N T"]:
    """The numbers of the names in each list, PAD after the end."""
    lengths = lists.list.len().to_numpy()
    padded = np.full((len(lists), max(int(lengths.max()), 1)), PAD, np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = numbers(lists.explode(), names).to_numpy()
    return padded
