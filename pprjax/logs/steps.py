"""The distinct steps of a log: what each action did in each state, as a list that is as long as they are many."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from pprjax.logs import imitation
from pprjax.ragged import Ragged
from pprjax.successors import Successors

SMALL_TABLE = 2**20
"""Numbers of a table of states × actions up to which it is dense: 4 MiB, and quicker to look up."""


@dataclasses.dataclass(frozen=True)
class Steps:
    """E pairs of one of S states and one of its actions, sorted by both. Arrays on the host."""

    num_states: int  # S
    num_actions: int  # of the whole log
    state: np.ndarray  # int32[E]
    action: np.ndarray  # int32[E], by its number in the log
    column: np.ndarray  # int32[E], of tables: the action, or the rank in its state, see `of`
    target: np.ndarray  # int32[E], the next state; where chance decides the likeliest
    times: np.ndarray  # int64[E], how often the log has it
    reward: np.ndarray  # float64[E], the mean of what it paid
    chances: pl.DataFrame | None  # step (its number in E), target, share: where chance decides

    @classmethod
    def of(cls, counts: pl.DataFrame, num_states: int, num_actions: int, *, acted: bool) -> Steps:
        """Those of a table of counts: state, action, next (their numbers), count, reward (summed).

        Args:
            acted: the log says what was done; else an action is to go to the next state. Columns of tables are then
                actions, if a table of all states and actions is small; else the ranks of steps.
        """
        edges = counts.group_by("state", "action", "next").agg(pl.col("count", "reward").sum())
        pairs = (
            edges.sort("count", "next", descending=[True, False])
            .group_by("state", "action", maintain_order=True)
            .agg(pl.col("next").first(), pl.col("count").sum(), pl.col("reward").sum(), kinds=pl.len())
            .sort("state", "action")
            .with_columns(rank=pl.int_range(pl.len()).over("state"))
        )
        state, action, target, times = (pairs[c].to_numpy() for c in ("state", "action", "next", "count"))
        chances = None
        if (pairs["kinds"] > 1).any():
            numbered = pairs.select("state", "action", total="count").with_row_index("step")
            chances = edges.join(numbered, on=["state", "action"]).sort("step", "next")
            chances = chances.select("step", target="next", share=pl.col("count") / pl.col("total"))
        by_action = acted and _is_small(num_states, num_actions)
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            state=state.astype(np.int32),
            action=action.astype(np.int32),
            column=action.astype(np.int32) if by_action else pairs["rank"].to_numpy().astype(np.int32),
            target=target.astype(np.int32),
            times=times.astype(np.int64),
            reward=pairs["reward"].to_numpy() / np.maximum(times, 1),
            chances=chances,
        )

    @cached_property
    def visits(self) -> Int[np.ndarray, " S"]:
        """How many steps of the log leave each state."""
        return np.bincount(self.state, self.times, self.num_states).astype(np.int64)

    @cached_property
    def shared(self) -> Float[np.ndarray, " E"]:
        """P_all."""
        return imitation.shared_policy(self.times, self.state)

    @property
    def width(self) -> int:
        """A of the tables."""
        return int(self.column.max(initial=0)) + 1

    def numbers(self, state: Int[np.ndarray, "*b"], action: Int[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
        """Which of the E a state and an action of the log are, by their numbers; there must be one."""
        keys = self.state.astype(np.int64) * self.num_actions + self.action
        return np.searchsorted(keys, np.asarray(state, np.int64) * self.num_actions + action)

    def action_of(self, state: Int[np.ndarray, "*b"], column: Int[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
        """The action of the log that a column of the tables is in a state."""
        keys = self.state.astype(np.int64) * self.width + self.column
        return self.action[np.searchsorted(keys, np.asarray(state, np.int64) * self.width + column)]

    @property
    def is_dense(self) -> bool:
        """Whether tables have a number for each state and column."""
        return _is_small(self.num_states, self.width)

    @cached_property
    def first(self) -> Int[np.ndarray, " S+1"]:
        """Where the steps of each state begin."""
        return np.searchsorted(self.state, np.arange(self.num_states + 1))

    def table(self, values: np.ndarray, fill: float) -> np.ndarray | Ragged:
        """Values of the E as a table: of S × A, with `fill` where there is no step, or a row of its steps for each
        state."""
        if not self.is_dense:
            return Ragged.of(self.first, np.asarray(values))
        table = np.full((self.num_states, self.width), fill, np.asarray(values).dtype)
        table[self.state, self.column] = values
        return table

    def next_state(self) -> Int[np.ndarray, "S A"] | Ragged:
        """Where each action leads; -1 where it was never taken."""
        return self.table(self.target, -1)

    def successors(self) -> Successors | None:
        """The shares, where chance decides."""
        if self.chances is None:
            return None
        step, target, share = (self.chances[c].to_numpy() for c in ("step", "target", "share"))
        sizes: dict[str, Any] = dict(rows=self.first)
        if self.is_dense:
            sizes = dict(num_states=self.num_states, num_actions=self.width)
        return Successors.from_steps(self.state[step], self.column[step], target, share, **sizes)


def _is_small(num_states: int, num_actions: int) -> bool:
    """Whether a table of states × actions is no matter."""
    return num_states * num_actions <= SMALL_TABLE
