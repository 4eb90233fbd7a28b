"""Results: the best path for each original, and the best for each number of edits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from flax import struct
from jaxtyping import Bool, Float, Int

from pprjax import metrics
from pprjax.edit_distance import EditCosts, RealCosts
from pprjax.errors import UserError
from pprjax.io import write_table
from pprjax.metrics import Scores
from pprjax.paths import PAD, Paths, fill_of
from pprjax.reward import closeness

ROUNDING = 2e-6
"""A share of its size by which a bound may lie above v and prove it all the same: float32 tells no more."""


@struct.dataclass
class Recourse:
    """The best paths found for B originals: R rows, the originals in their order, and for each the best path first.

    Without n_recourses there is one row an original, R = B. Where no path meets the goal and keeps the constraints, or
    none was found, the status is "infeasible", the path is the start alone, R is -inf, the scores are NaN, and distance
    and violations are -1. Arrays on the host.
    """

    originals: Paths  # B
    index: np.ndarray  # int32[R], which original the row answers
    rank: np.ndarray  # int32[R], 1 for the best
    paths: Paths  # R, symbols and actions
    reward: np.ndarray  # float[R], R (Eq. 5)
    bound: np.ndarray  # float[R], no path in this place is worth more; R itself where that is proved, inf: not known
    method: np.ndarray  # str[R], how the path was found: "exact", "search" or "learn"
    scores: Scores  # R
    status: np.ndarray  # str[R], see `pprjax.metrics.status`; or "infeasible"
    original_goal: np.ndarray  # float[B], R_goal of the original; -inf where the world can't follow it
    lambda_path: np.ndarray  # float[B]
    lambda_policy: np.ndarray  # float[B]
    greedy_reward: np.ndarray  # float[B], R of the greedy path of a trained Q; -inf: it misses the goal, NaN: no Q
    curve: np.ndarray  # float[B, iterations], R of the best path so far; no iterations where nothing was trained
    diversity: np.ndarray  # float[B], mean edit distance between its recourses; NaN where there is one
    reliability: np.ndarray  # float[R], the share of fresh runs of its actions that meet the goal; NaN: not known
    reliability_error: (
        np.ndarray
    )  # float[R], its standard error; 0 in a world without chance, where a path works or not
    policy_reliability: (
        np.ndarray
    )  # float[B], the same of the trained Q's policy, which reacts to chance; NaN: no chance
    policy_reliability_error: np.ndarray  # float[B]

    def __len__(self) -> int:
        return len(self.reward)

    def __repr__(self) -> str:
        return f"Recourse({len(self)} for {len(self.originals)} originals: {_counted(self.status)})"

    @property
    def gap(self) -> Float[np.ndarray, " R"]:
        """How much better another path may be at most: 0 where the path is proved to be the best, inf: not known."""
        with np.errstate(invalid="ignore"):  # -inf less -inf, where it is proved that there is no path
            return np.where(self.bound == self.reward, 0.0, self.bound - self.reward)

    def to_frame(self) -> pl.DataFrame:
        """One row a path; `path` is the `index` of its original."""
        own = {"reward": self.reward, "bound": self.bound}
        more = {
            "greedy_reward": self.greedy_reward[self.index],
            "lambda_path": self.lambda_path[self.index],
            "lambda_policy": self.lambda_policy[self.index],
            "diversity": self.diversity[self.index],
            "reliability": self.reliability,
            "reliability_error": self.reliability_error,
            "policy_reliability": self.policy_reliability[self.index],
        }
        return _frame(self, own, more)

    def save(self, path: str | os.PathLike) -> None:
        """Write `to_frame` as parquet or CSV, by the ending of the path; whole or not at all.

        In CSV a sequence is one field, its numbers parted by blanks, those of a vector by colons.
        """
        _save(self.to_frame(), path)

    def plot(self, ax: Any = None) -> Any:
        """The training curves, R of the best path so far over the iterations, on a matplotlib Axes.

        Raises:
            ValueError: nothing was trained.
        """
        if not self.curve.shape[1]:
            raise UserError('plot: expected recourses of method "learn", whose training curves these are')
        from pprjax import plotting  # takes a second to import

        return plotting.curves(self.curve, ax=ax)


@struct.dataclass
class Frontier:
    """The best path for each number of edits: F rows, original by original, and of each the fewest edits first.

    v = R_goal + λ_policy·R_policy. A row stands there only if its v exceeds that of all rows with fewer edits, so that
    the best path at any λ_path is one of them: max_τ R(τ) = max over the rows of v + λ_path / (d + 1). With n_recourses
    each of them is followed by the next best paths of as many edits. Arrays on the host.

    Where symbols are vectors, d is no whole number, and a row is the best path of e ≤ d < e + 1 for a whole e. Another
    path of that bin may be nearer, so that at one λ_path R is at most λ_path / (e + 1) - λ_path / (d + 1) larger: the
    `gap` counts that. `recourse` looks for the largest R itself.
    """

    originals: Paths  # B
    index: np.ndarray  # int32[F], which original the row answers; one that no path answers has no row
    rank: np.ndarray  # int32[F], 1 for the best path of so many edits
    distance: np.ndarray  # int32[F], d; float[F] where symbols are vectors
    value: np.ndarray  # float[F], v
    bound: np.ndarray  # float[F], no path in this place has a larger v: `value` where proved, inf: not known
    paths: Paths  # F, symbols and actions
    scores: Scores  # F
    status: np.ndarray  # str[F], see `pprjax.metrics.status`
    limit: np.ndarray  # float[B, E], no path of at most e edits has a larger v; from E on as in the last place
    original_goal: np.ndarray  # float[B], R_goal of the original; -inf where the world can't follow it
    lambda_policy: np.ndarray  # float[B]
    answered_by: np.ndarray  # str[B], the method: "exact", "search" or "learn"
    apart: EditCosts | RealCosts = struct.field(pytree_node=False, default=EditCosts())  # of diversity

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Frontier({len(self)} points for {len(self.originals)} originals: {_counted(self.status)})"

    @property
    def rung(self) -> np.ndarray:
        """int32[F], e: d, or its whole part."""
        return self.distance.astype(np.int32)

    @property
    def method(self) -> np.ndarray:
        """str[F], how each path was found."""
        return self.answered_by[self.index]

    def at(self, lambda_path: float | Float[np.ndarray, " B"]) -> Recourse:
        """The best path of each original at this λ_path, one number or one for each; of equals the one of fewer edits.

        With n_recourses the other paths of as many edits follow it.

        Raises:
            ValueError: λ_path is negative, not finite or of another shape.
        """
        size = len(self.originals)
        weights = np.asarray(lambda_path, float)
        if weights.shape not in ((), (size,)) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise UserError(
                f"lambda_path: expected a number of at least 0, or one for each of {size}, got {lambda_path}"
            )
        weights = np.broadcast_to(weights, size)
        close = closeness(self.distance, weights[self.index])
        order = np.lexsort((self.rank, self.distance, -(self.value + close), self.index))
        first = order[np.unique(self.index[order], return_index=True)[1]]
        chosen = np.full(size, -1)
        chosen[self.index[first]] = self.rung[first]
        rows = np.flatnonzero(self.rung == chosen[self.index])
        rows = rows[np.lexsort((-(self.value + close)[rows], self.index[rows]))]
        closest = closeness(np.arange(self.limit.shape[1]), weights[:, None])
        limit = (self.limit + closest).max(1)
        known = np.maximum.accumulate(self._values(weights), axis=1)
        terms = closest if self.paths.vector_size else 0.0  # of which `_values` has differences
        with np.errstate(invalid="ignore"):  # -inf less -inf, where nothing is feasible
            near = self.limit - known <= ROUNDING * (1.0 + terms + np.abs(self.limit))
            proved = (self.limit == known) | (near & np.isfinite(self.limit))
        limit = np.where(proved.all(1), -np.inf, limit)
        bound = np.where(self.rank == 1, limit[self.index], self.bound + close)
        return self.rows_at(rows, weights, bound[rows], limit)

    def rows_at(
        self,
        rows: Int[np.ndarray, " r"],
        weights: Float[np.ndarray, " B"],
        bound: Float[np.ndarray, " r"],
        limit: Float[np.ndarray, " B"],
    ) -> Recourse:
        """These rows as recourses, original by original and the best of each first; where there is none, no path.

        Args:
            weights: λ_path.
            bound: on R of what may stand in the place of a row; R itself where it is above.
            limit: on R of the originals that have no row.
        """
        size = len(self.originals)
        none = np.setdiff1d(np.arange(size), self.index[rows])
        path = np.append(self.index[rows], none)
        order = np.argsort(path, kind="stable")
        path, row = path[order].astype(np.int32), np.append(rows, np.full(len(none), -1))[order]
        valid = row >= 0

        def take(values, otherwise):
            values = np.asarray(values)
            blank = np.full((len(row), *values.shape[1:]), otherwise, values.dtype)
            blank[valid] = values[row[valid]]
            return blank

        symbols = take(self.paths.symbols, fill_of(self.paths.symbols))
        symbols[:, 0] = np.asarray(self.originals.symbols)[path, 0]
        paths = Paths(symbols, take(self.paths.lengths, 1), take(self.paths.actions, PAD))
        worth = self.value + closeness(self.distance, weights[self.index])
        reward = take(worth, -np.inf)
        blank = {"goal": np.nan, "path": np.nan, "r_policy": np.nan, "policy": np.nan, "distance": -1, "violations": -1}
        return Recourse(
            originals=self.originals,
            index=path,
            rank=ranks(path),
            paths=paths,
            reward=reward,
            bound=np.maximum(np.append(bound, limit[none])[order], reward),
            method=self.answered_by[path],
            scores=Scores(**{name: take(getattr(self.scores, name), value) for name, value in blank.items()}),
            status=np.where(valid, take(self.status.astype("U12"), ""), "infeasible"),
            original_goal=self.original_goal,
            lambda_path=weights,
            lambda_policy=self.lambda_policy,
            diversity=metrics.diversity(paths, path, size, self.apart),
            **untrained(size),
            **surely(valid & (self.answered_by[path] != "learn"), size),  # which may be in a world of chance
        )

    def _values(self, weights: Float[np.ndarray, " B"]) -> Float[np.ndarray, "B E"]:
        """F(e), -inf where there is no row; of vectors the v that is worth at e what that of the row is at d."""
        values, first = np.full(self.limit.shape, -np.inf), self.rank == 1
        path, rung, weight = self.index[first], self.rung[first], weights[self.index[first]]
        value = self.value[first] + (closeness(self.distance[first], weight) - closeness(rung, weight))
        values[path, np.minimum(rung, self.limit.shape[1] - 1)] = value
        return values

    def to_frame(self) -> pl.DataFrame:
        """One row a point; `path` is the `index` of its original."""
        own = {"value": self.value, "bound": self.bound}
        return _frame(self, own, {"lambda_policy": self.lambda_policy[self.index]})

    def save(self, path: str | os.PathLike) -> None:
        """Write `to_frame` as parquet or CSV, by the ending of the path; whole or not at all."""
        _save(self.to_frame(), path)

    def plot(self, axes: Any = None) -> Any:
        """v, R_goal and R_policy of the best path over the edits, one line an original, on three matplotlib Axes."""
        from pprjax import plotting  # takes a second to import

        return plotting.ladders(self.to_frame().filter(rank=1), axes=axes)


def ranks(path: Int[np.ndarray, " R"]) -> Int[np.ndarray, " R"]:
    """The place of each row among those of its original, from 1; they stand together, original by original."""
    return (np.arange(len(path)) - np.searchsorted(path, path) + 1).astype(np.int32)


def untrained(size: int) -> dict[str, np.ndarray]:
    """What recourses of B originals say of a training where there was none."""
    return {"greedy_reward": np.full(size, np.nan), "curve": np.zeros((size, 0))}


def surely(met: Bool[np.ndarray, " R"], size: int) -> dict[str, np.ndarray]:
    """How reliable R paths are where chance decides nothing, of B originals: met says which there are and work."""
    nothing = np.full(size, np.nan)
    return {
        "reliability": np.where(met, 1.0, np.nan),
        "reliability_error": np.where(met, 0.0, np.nan),
        "policy_reliability": nothing,
        "policy_reliability_error": nothing,
    }


def _counted(status: np.ndarray) -> str:
    """How many rows there are of each status."""
    names, counts = np.unique(np.asarray(status, str), return_counts=True)
    return ", ".join(f"{n} {name}" for name, n in zip(names, counts, strict=True)) or "none"


def _frame(found: Recourse | Frontier, own: dict[str, np.ndarray], more: dict[str, np.ndarray]) -> pl.DataFrame:
    """One row a path: what all results tell of one, with what this kind has before the scores and after them."""
    scores = found.scores
    return pl.DataFrame(
        {
            "path": found.index,
            "rank": found.rank,
            "status": found.status.tolist(),
            "method": found.method.tolist(),
            **own,
            "s_goal": scores.goal,
            "s_path": scores.path,
            "s_policy": scores.policy,
            "r_policy": scores.r_policy,
            "distance": scores.distance,
            "violations": scores.violations,
            "length": np.asarray(found.paths.lengths),
            "original_goal": found.original_goal[found.index],
            **more,
            **_sequences(found.originals[found.index], found.paths),
        }
    )


def _sequences(originals: Paths, paths: Paths) -> dict[str, pl.Series]:
    symbol = pl.List(pl.Float32) if paths.vector_size else pl.Int32
    lists = {"original": originals.to_lists(), "recourse": paths.to_lists()}
    series = {name: pl.Series(name, rows, dtype=pl.List(symbol)) for name, rows in lists.items()}
    return series | {"actions": pl.Series("actions", paths.actions_to_lists(), dtype=pl.List(pl.Int32))}


def _save(frame: pl.DataFrame, path: str | os.PathLike) -> None:
    if Path(path).suffix == ".csv":
        vectors = pl.col(pl.List(pl.List(pl.Float32)))
        together = pl.element().cast(pl.List(pl.String)).list.join(":")
        frame = frame.with_columns(vectors.list.eval(together))
        frame = frame.with_columns(
            pl.col(pl.List(pl.Int32), pl.List(pl.String)).cast(pl.List(pl.String)).list.join(" ")
        )
    write_table(frame, path)
