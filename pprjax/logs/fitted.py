"""What a log tells: the world, by counting, and how each agent acts in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from pprjax import goals
from pprjax.baselines.counterfactual import counterfactual_probabilities
from pprjax.constraints import Constraints
from pprjax.declare import Rule, product
from pprjax.errors import UserError
from pprjax.io import output_folder, write_json, write_table
from pprjax.logs import imitation, marks
from pprjax.logs.bins import Edges
from pprjax.logs.log import CLOSE
from pprjax.logs.steps import Steps
from pprjax.logs.words import NEAREST, counted, listed
from pprjax.paths import PAD, Paths
from pprjax.policy import TablePolicy
from pprjax.ragged import Ragged, tiled
from pprjax.successors import Successors
from pprjax.task import Task

MAX_CHANCES = 2**27
"""The most numbers that the chances of all steps of one trip may be."""


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A world of S states and A actions, and N agents in it. Arrays on the host."""

    states: np.ndarray  # str[S], or int64[S] where all are whole numbers
    actions: np.ndarray  # str[A] or int64[A]
    agents: np.ndarray  # str[N] or int64[N]
    deterministic: bool  # by definition or because the user says so: then certificates hold
    steps: Steps  # E, those that the log has
    terminal: np.ndarray  # bool[S], nothing was ever done there, or it is a state of the goal
    goal: goals.Goal | None
    ends: np.ndarray | None  # bool[S·2^k], what meets the goal where it is one on states, see `pprjax.logs.marks`
    marks: np.ndarray  # int32[k], states that the goal asks whether the path has visited; mostly none
    max_steps: int  # horizon
    smoothing: float  # m of `pprjax.logs.imitation`
    likelihoods: dict[float, float]  # of each m that was tried, the mean log-likelihood of a held-out step
    goal_accuracy: float  # of "good" as it is told, on held-out paths; NaN for other goals
    learned_goal: bool  # the goal is "good", which is told from labels
    own: pl.DataFrame  # agent, state, action (their numbers), count; sorted
    edges: Edges = dataclasses.field(default_factory=dict)  # where the bins of the state's columns meet
    rules: tuple[Rule, ...] = ()  # that every recourse keeps, of states by their numbers
    words: str | None = None  # the goal, as it was asked
    goal_rules: tuple[Rule, ...] = ()  # what a goal on where a path ends asks of it beside `ends`
    arrival: int | None = None  # the state X of a goal "state=X"
    went_on: int = 0  # paths of the log that came to it and ended elsewhere
    rules_left_out: int = 0  # that all good paths keep and no recourse is held to, see `pprjax.logs.mining`
    max_regret: float | None = None  # the most that a step of a recourse may cost, in nats; None: any

    @cached_property
    def successors(self) -> Successors | None:
        """P(s' | s, a); None where no step contradicts another."""
        return self.steps.successors()

    @property
    def transition(self) -> Float[np.ndarray, "S A S"] | None:
        """The same as a table of all S next states, for small worlds."""
        return None if self.successors is None else self.successors.table()

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """What every recourse keeps, for the goal or beside it."""
        return (*self.rules, *self.goal_rules)

    @property
    def evidence(self) -> tuple[int, int]:
        """How many pairs of a state and an action the log has, and how many of them more than once."""
        return len(self.steps.times), int((self.steps.times > 1).sum())

    @property
    def _memories(self) -> int:
        """2^k, what can be remembered of the marks."""
        return 2 ** len(self.marks)

    @cached_property
    def env(self) -> Any:
        """The world, with memory of the marks, as a TabularMDP; it starts in state 0, see `task`."""
        from pprjax.tabular import TabularMDP  # gymnax takes a while to import

        world = TabularMDP(
            None if self.successors is not None else marks.following(self.steps.next_state(), self.marks),
            tiled(self.steps.table(self.steps.reward, 0.0), self._memories),
            np.tile(self.terminal, self._memories) | (False if self.ends is None else self.ends),
            0,
            self.max_steps,
            symbols=np.tile(np.arange(len(self.states)), self._memories),
            transition=None if self.successors is None else marks.chances(self.successors, self.marks),
            action_set_size=len(self.actions),
        )
        world.deterministic = self.deterministic  # a table that no step contradicts is no proof
        return world

    @cached_property
    def _first_rows(self) -> Int[np.ndarray, " N"]:
        return np.searchsorted(self.own["agent"].to_numpy(), np.arange(len(self.agents) + 1))

    def counts_of(self, agent: int) -> Int[np.ndarray, " E"]:
        """How often this agent, by its number, took each step."""
        rows = self.own[int(self._first_rows[agent]) : int(self._first_rows[agent + 1])]
        counts = np.zeros(len(self.steps.times), np.int64)
        index = self.steps.numbers(rows["state"].to_numpy(), rows["action"].to_numpy())
        counts[index] = rows["count"].to_numpy()
        return counts

    def probs(self, agent: int) -> Float[np.ndarray, " E"]:
        """P_A of an agent, by its number."""
        counts, state = self.counts_of(agent), self.steps.state
        total = np.bincount(state, counts, len(self.states))[state]
        return imitation.smoothed(counts, total, self.steps.shared, self.smoothing)

    def task(self, agent: int, start: int, chances: Successors | None = None) -> Task:
        """The task of an agent whose paths begin in a state, both by their numbers; with chances for each step."""
        first = marks.visited(np.array([start]), self.marks)[0] * len(self.states) + start
        params = self.env.default_params.replace(start=jnp.int32(first))
        if chances is not None:
            params = self.env.with_chances(params, marks.chances(chances, self.marks))
        policy = TablePolicy(jax.tree.map(jnp.asarray, self.world_probs(agent)))
        constraints = Constraints(rules=self.all_rules, max_regret=self.max_regret)
        return Task(self.env, policy, goal=self.goal, params=params, constraints=constraints)

    def to_columns(self, paths: Paths) -> Paths:
        """Logged paths with the actions of `env` in place of those of the log."""
        return self._renamed(paths, lambda s, a: self.steps.column[self.steps.numbers(s, a)])

    def to_actions(self, paths: Paths) -> Paths:
        """Paths through `env` with the actions of the log in place of its own."""
        return self._renamed(paths, self.steps.action_of)

    def _renamed(self, paths: Paths, name: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Paths:
        symbols, actions = np.asarray(paths.symbols), np.array(paths.actions)
        row, place = np.nonzero(actions != PAD)
        actions[row, place] = name(symbols[row, place], actions[row, place])
        return Paths(symbols, np.asarray(paths.lengths), actions)

    def world_probs(self, agent: int) -> Float[np.ndarray, "R A"] | Ragged:
        """P_A of an agent over the states of `env`; where nothing was ever done, anything is as likely."""
        table = self.steps.table(self.probs(agent), 0.0)
        if isinstance(table, np.ndarray):
            table[self.steps.visits == 0] = 1.0 / table.shape[1]
        return tiled(table, self._memories)

    def check_noise(self) -> None:
        """Raise a ValueError where the observed noise of a path takes too much: T·N is more than 2²⁷."""
        needed = 0 if self.successors is None else self.max_steps * self.successors.probs.size * self._memories
        if needed > MAX_CHANCES:
            raise UserError(
                f"noise: the observed noise of a path takes {needed:,} chances, of {self.max_steps} steps in a world "
                f"of {self.env.num_states} states, more than {MAX_CHANCES:,}"
            )

    def counterfactual(self, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n-1"]) -> Successors | None:
        """The chances of each step on the trip that took this path; None where no step contradicts another.

        The noise of a step is what the path tells of it (see `pprjax.baselines.counterfactual`): who does there what
        was done there surely gets where the path went. After its end the chances are everyone's.

        Raises:
            ValueError: as `check_noise`.
        """
        if self.successors is None:
            return None
        self.check_noise()
        path = Paths(np.asarray(states)[None], np.array([np.sum(states != PAD)]), np.asarray(actions)[None])
        passed, done = np.full(self.max_steps + 1, PAD, np.int32), np.full(self.max_steps, PAD, np.int32)
        passed[: len(states)] = states[: len(passed)]
        done[: len(actions)] = np.asarray(self.to_columns(path).actions)[0, : len(done)]
        return counterfactual_probabilities(self.successors, passed, done)

    def probability(self, paths: Paths, chances: Successors | None = None) -> Float[np.ndarray, " B"]:
        """How likely the actions of a path lead along its states: 1 where no step contradicts another."""
        chances = self.successors if chances is None else chances
        if chances is None:
            return np.ones(len(paths))
        paths = self.to_columns(paths)
        states, actions = np.asarray(paths.symbols), np.asarray(paths.actions)
        moves = np.arange(actions.shape[1]) < np.asarray(paths.lengths)[:, None] - 1
        here, taken, after = (np.where(moves, x, 0) for x in (states[:, :-1], actions, states[:, 1:]))
        steps = chances.prob(here, taken, after, np.arange(actions.shape[1]))
        return np.where(moves, steps, 1.0).prod(1)

    def met(
        self,
        states: Int[np.ndarray, "B N"],
        rewards: Float[np.ndarray, " B"],
        magnitudes: Float[np.ndarray, " B"],
    ) -> Bool[np.ndarray, " B"]:
        """Which logged paths, PAD after their ends, meet the goal already, by R_goal or in a state on the way, and keep
        the rules up to there. What is to be avoided must be avoided to their ends.

        Args:
            rewards: R_goal = Σ r_t, and magnitudes Σ|r_t|.
        """
        if self.goal is None:
            return np.zeros(len(states), bool)
        if self.ends is None:
            earned = goals.Outcome(None, jnp.ones(len(rewards), bool), jnp.asarray(rewards), jnp.asarray(magnitudes))
            met = np.asarray(self.goal(earned))
        else:
            met = self._arrives(states).any(1)
            if self.marks.size and not self.learned_goal:
                possible = self.ends.reshape(-1, len(self.states)).any(1)
                met &= possible[marks.visited(states, self.marks)[:, -1]]
        return met & product(self.all_rules).accepts(self.until_met(states)) if self.all_rules else met

    def _arrives(self, states: Int[np.ndarray, "B N"]) -> Bool[np.ndarray, "B N"]:
        """Where paths meet a goal on states."""
        assert self.ends is not None
        return self.ends[marks.visited(states, self.marks) * len(self.states) + states] & (states != PAD)

    def until_met(self, states: Int[np.ndarray, "B N"]) -> Int[np.ndarray, "B N"]:
        """Logged paths as far as a recourse would go: PAD after they meet a goal on states."""
        if self.ends is None:
            return states
        arrived = np.logical_or.accumulate(self._arrives(states), axis=1)
        return np.where(np.pad(arrived[:, :-1], ((0, 0), (1, 0))), PAD, states)

    def notes(self) -> list[str]:
        """What a user may not expect, a line each: where labels say that a good path ends, that paths went on from
        where the goal is to arrive, and what `max_regret` is as a share."""
        lines = []
        if self.went_on:
            name = self.states[self.arrival]
            went = f"{counted(self.went_on, 'path')} came to {str(name)!r} and ended elsewhere"
            lines.append(f"{went}: what came after does not count. ends={name} asks where a path ends.")
        if self.learned_goal:
            ends = self._named_ends()
            told = [_end_in_words(**end) for end in ends[:NEAREST]]
            more = [f"{len(ends) - NEAREST:,} more, see goal_states in fit.json"] if len(ends) > NEAREST else []
            lines.append(f"Told from the labels, a good path ends in {' or in '.join(told + more)}.")
        if self.max_regret is not None:
            lines.append(f"Each step of a recourse is {self.least_likely} (max_regret {self.max_regret:g}).")
        return lines

    @property
    def least_likely(self) -> str:
        """What `max_regret` asks of a step, in words."""
        assert self.max_regret is not None
        return f"at least {np.exp(-self.max_regret):.2g} times as likely as what its agent does most there"

    def named_rules(self) -> list[str]:
        """The rules in the words of the log."""
        named = [(rule, self.states[list(rule.symbols)].tolist()) for rule in self.rules]
        return [f"last({names[0]})" if names[-1] == CLOSE else rule.named(names) for rule, names in named]

    def save(self, folder: str | Path) -> None:
        """Write transitions.parquet, policies.parquet and fit.json to a folder, to be looked at."""
        folder = output_folder(folder)
        steps, chances = self.steps, self.steps.chances
        step, target, prob = np.arange(len(steps.target)), steps.target, np.ones(len(steps.target))
        if chances is not None:
            step, target, prob = (chances[c].to_numpy() for c in ("step", "target", "share"))
        world = {
            "state": self.states[steps.state[step]].tolist(),
            "action": self.actions[steps.action[step]].tolist(),
            "next": self.states[target].tolist(),
            "prob": prob,
            "reward": steps.reward[step],
            "ends": self.terminal[target],
        }
        write_table(pl.DataFrame(world), folder / "transitions.parquet")
        agent, state, action, count = (self.own[c].to_numpy() for c in ("agent", "state", "action", "count"))
        total = self.own.select(pl.col("count").sum().over("agent", "state")).to_series().to_numpy()
        prob = imitation.smoothed(count, total, steps.shared[steps.numbers(state, action)], self.smoothing)
        policies = {
            "agent": self.agents[agent].tolist(),
            "state": self.states[state].tolist(),
            "action": self.actions[action].tolist(),
            "count": count,
            "prob": prob,
        }
        write_table(pl.DataFrame(policies), folder / "policies.parquet")
        summary = {
            "goal": self.words,
            "num_states": len(self.states),
            "num_actions": len(self.actions),
            "num_agents": len(self.agents),
            "deterministic": self.deterministic,
            "pairs_seen": self.evidence[0],
            "pairs_seen_again": self.evidence[1],
            "max_steps": self.max_steps,
            "smoothing": self.smoothing,
            "held_out_log_likelihood": {str(m): _json(v) for m, v in self.likelihoods.items()},
            "goal_accuracy": _json(self.goal_accuracy),
            "edges": self.edges,
            "rules": self.named_rules(),
            "rules_left_out": self.rules_left_out,
            "max_regret": self.max_regret,
            "goal_states": None if self.ends is None else self._named_ends(),
        }
        write_json(summary, folder / "fit.json")

    def _named_ends(self) -> list[dict[str, Any]]:
        assert self.ends is not None
        bits, states = np.divmod(np.flatnonzero(self.ends), len(self.states))
        names = self.states[self.marks]
        has = (bits[:, None] >> np.arange(len(names)) & 1).astype(bool)
        rows = zip(self.states[states].tolist(), has, strict=True)
        return [{"state": s, "visited": names[h], "not_visited": names[~h]} for s, h in rows]


def _end_in_words(state: Any, visited: Any, not_visited: Any) -> str:
    """A state in which a path may end, and what it is to have passed, or not, before."""
    asked = [
        f"{word} {listed(names, last)}"
        for word, names, last in (("with", visited, "and"), ("without", not_visited, "or"))
        if len(names)
    ]
    told = " ".join(asked)
    return f"{str(state)!r} ({told})" if asked else repr(str(state))


def numbers(values: pl.Series, names: np.ndarray) -> pl.Series:
    """The place of each value, a string, among the names."""
    table = {str(name): i for i, name in enumerate(names.tolist())}
    return values.replace_strict(table, return_dtype=pl.Int32)


def named(padded: Int[np.ndarray, "N T"], lengths: Int[np.ndarray, " N"], names: np.ndarray) -> pl.Series:
    """The names of the numbers: a list a row, without its padding."""
    row = np.repeat(np.arange(len(padded), dtype=np.uint32), lengths)
    values = names[padded[np.arange(padded.shape[1]) < lengths[:, None]]]
    dtype = pl.Int64 if names.dtype == np.int64 else pl.String
    flat = pl.DataFrame({"row": row, "value": pl.Series(values.tolist(), dtype=dtype)})
    lists = flat.group_by("row").agg("value")  # keeps the order within a row
    every = pl.DataFrame({"row": np.arange(len(padded), dtype=np.uint32)}).join(
        lists, on="row", how="left", maintain_order="left"
    )
    return every["value"].fill_null([])


def _json(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
