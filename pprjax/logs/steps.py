"""The distinct steps of a log: what each action did in each state, as a list that is as long as they are many."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from pprjax.certify.limits import TooLargeError
from pprjax.logs import imitation
from pprjax.successors import Successors, check_size

MAX_TABLE = 2**26
"""The most numbers of a table of states × actions."""


@dataclasses.dataclass(frozen=True)
class Steps:
    """E pairs of one of S states and one of its actions, sorted by both. Arrays on the host."""

    num_states: int  # S
    num_actions: int  # of the whole log
    state: np.ndarray  # int32[E]
    action: np.ndarray  # int32[E], by its number in the log
    column: np.ndarray  # int32[E], of tables of states × actions; without a column of actions the rank in its state
    target: np.ndarray  # int32[E], the next state; where chance decides the likeliest
    times: np.ndarray  # int64[E], how often the log has it
    reward: np.ndarray  # float64[E], the mean of what it paid
    chances: pl.DataFrame | None  # step (its number in E), target, share: where chance decides

    @classmethod
    def of(cls, counts: pl.DataFrame, num_states: int, num_actions: int, *, acted: bool) -> Steps:
        """Those of a table of counts: state, action, next (their numbers), count, reward (summed).

        Args:
            acted: the log says what was done; else an action is to go to the next state.
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
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            state=state.astype(np.int32),
            action=action.astype(np.int32),
            column=action.astype(np.int32) if acted else pairs["rank"].to_numpy().astype(np.int32),
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

    def table(self, values: np.ndarray, fill: float) -> np.ndarray:
        """[S, A] of values of the E.

        Raises:
            TooLargeError: it has more than MAX_TABLE numbers.
        """
        if self.num_states * self.width > MAX_TABLE:
            raise TooLargeError(
                f"log: a table of {self.num_states:,} states and {self.width:,} actions, as many as the state with the "
                f'most has, takes {self.num_states * self.width * 4 / 2**30:.1f} GiB; method "auto" and a goal on '
                "states need none"
            )
        table = np.full((self.num_states, self.width), fill, np.asarray(values).dtype)
        table[self.state, self.column] = values
        return table

    def next_state(self) -> Int[np.ndarray, "S A"]:
        """Where each action leads; -1 where it was never taken."""
        return self.table(self.target, -1)

    @property
    def most_successors(self) -> int:
        """K, the most states that one of the E has led to."""
        return 1 if self.chances is None else int(self.chances.group_by("step").len()["len"].to_numpy().max(initial=1))

    def check_chances(self) -> None:
        """Raise a ValueError where chance decides and the table of where it leads takes too much."""
        if self.chances is not None:
            where = "log: chance decides in this world, and"
            check_size(where, self.num_states, self.width, self.most_successors)

    def successors(self) -> Successors | None:
        """The shares, where chance decides.

        Raises:
            ValueError: as `check_chances`.
        """
        if self.chances is None:
            return None
        self.check_chances()
        step, target, share = (self.chances[c].to_numpy() for c in ("step", "target", "share"))
        sizes: dict[str, int] = dict(num_states=self.num_states, num_actions=self.width)
        return Successors.from_steps(self.state[step], self.column[step], target, share, **sizes)
