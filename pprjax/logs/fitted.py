"""What a log tells: the world, by counting, and how each agent acts in it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Bool, Float, Int

from pprjax import goals
from pprjax.baselines.counterfactual import counterfactual_probabilities
from pprjax.config import Config
from pprjax.io import output_folder, write_json, write_table
from pprjax.logs import imitation, marks
from pprjax.paths import PAD, Paths
from pprjax.policy import TablePolicy
from pprjax.task import Task

if TYPE_CHECKING:
    from pprjax.logs.log import Log

Method = Literal["auto", "exact", "learned"]
"""How a recourse is found: certified, by Algorithm 1, or "auto": certified where that is possible, else learned."""

Noise = Literal["fresh", "observed"]
"""Where chance decides: it decides anew, or as on the logged path as far as that path tells (Gumbel-max)."""

MAX_CHANCES = 2**27
"""The most numbers that the chances of all steps of one trip may be."""

MAX_STOCHASTIC_STATES = 512
"""A world in which chance decides takes S² A numbers; from here on that is refused."""


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A world of S states and A actions, and N agents in it. Arrays on the host."""

    states: np.ndarray  # str[S], or int64[S] where all are whole numbers
    actions: np.ndarray  # str[A] or int64[A]
    agents: np.ndarray  # str[N] or int64[N]
    next_state: np.ndarray | None  # int32[S, A], -1 where the log has no such step; None in a world of chance
    transition: np.ndarray | None  # float64[S, A, S], P(s' | s, a); None in a deterministic world
    reward: np.ndarray  # float64[S, A], the mean of those paid
    terminal: np.ndarray  # bool[S], nothing was ever done there, or it is a state of the goal
    goal: goals.Goal | None
    ends: np.ndarray | None  # bool[S·2^k], what meets the goal where it is one on states, see `pprjax.logs.marks`
    marks: np.ndarray  # int32[k], states that the goal asks whether the path has visited; mostly none
    max_steps: int  # horizon: actions of the longest path
    smoothing: float  # m of `pprjax.logs.imitation`
    likelihoods: dict[float, float]  # of each m that was tried, the mean log-likelihood of a held-out step
    goal_accuracy: float  # of "good" as it is told, on held-out paths; NaN for other goals
    shared: np.ndarray  # float64[S, A], P_all
    own: pl.DataFrame  # agent, state, action (their numbers), count; sorted

    @property
    def deterministic(self) -> bool:
        return self.transition is None

    @property
    def _memories(self) -> int:
        """2^k, what can be remembered of the marks."""
        return 2 ** len(self.marks)

    @cached_property
    def env(self) -> Any:
        """The world, with memory of the marks, as a TabularMDP; it starts in state 0, see `task`."""
        world = importlib.metadata.entry_points(group="pprjax.worlds")["tabular"].load()
        return world(
            None if self.next_state is None else marks.following(self.next_state, self.marks),
            np.tile(self.reward, (self._memories, 1)),
            np.tile(self.terminal, self._memories) | (False if self.ends is None else self.ends),
            0,
            self.max_steps,
            symbols=np.tile(np.arange(len(self.states)), self._memories),
            transition=None if self.transition is None else marks.chances(self.transition, self.marks),
        )

    @cached_property
    def _first_rows(self) -> Int[np.ndarray, " N"]:
        return np.searchsorted(self.own["agent"].to_numpy(), np.arange(len(self.agents) + 1))

    def counts_of(self, agent: int) -> Int[np.ndarray, "S A"]:
        """How often this agent, by its number, took each action."""
        mine = self.own[int(self._first_rows[agent]) : int(self._first_rows[agent + 1])]
        counts = np.zeros(self.shared.shape, np.int64)
        counts[mine["state"].to_numpy(), mine["action"].to_numpy()] = mine["count"].to_numpy()
        return counts

    def probs(self, agent: int) -> Float[np.ndarray, "S A"]:
        """P_A of an agent, by its number."""
        return imitation.agent_policy(self.counts_of(agent), self.shared, self.smoothing)

    def task(self, agent: int, start: int, transition: Float[Array, "T S A S"] | None = None) -> Task:
        """The task of an agent whose paths begin in a state, both by their numbers; with chances for each step."""
        first = marks.visited(np.array([start]), self.marks)[0] * len(self.states) + start
        params = self.env.default_params.replace(start=jnp.int32(first))
        if transition is not None:
            remembered = marks.chances(np.asarray(transition), self.marks)
            params = self.env.with_chances(params, jnp.asarray(remembered, jnp.result_type(float)))
        return Task(self.env, TablePolicy(jnp.asarray(self.world_probs(agent))), goal=self.goal, params=params)

    def world_probs(self, agent: int) -> Float[np.ndarray, "R A"]:
        """P_A of an agent over the states of `env`."""
        return np.tile(self.probs(agent), (self._memories, 1))

    def counterfactual(
        self, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n-1"]
    ) -> Float[Array, "T S A S"] | None:
        """The chances of each step on the trip that took this path, PAD behind its end; None in a deterministic world.

        The noise of a step is what the path tells of it (see `pprjax.baselines.counterfactual`): who does there what
        was done there surely gets where the path went. Behind its end the chances are everyone's.

        Raises:
            ValueError: T S² A is more than 2²⁷.
        """
        if self.transition is None:
            return None
        needed = self.max_steps * self.transition.size * self._memories**2
        if needed > MAX_CHANCES:
            raise ValueError(
                f"noise: the observed noise of a path takes {needed:,} chances, of {self.max_steps} steps in a world "
                f"of {self.env.num_states} states, more than {MAX_CHANCES:,}"
            )
        passed = np.full(self.max_steps + 1, PAD, np.int32)
        done = np.full(self.max_steps, PAD, np.int32)
        passed[: len(states)] = states[: len(passed)]
        done[: len(actions)] = actions[: len(done)]
        by_action = jnp.moveaxis(jnp.asarray(self.transition, jnp.result_type(float)), 0, 1)
        return jnp.moveaxis(counterfactual_probabilities(by_action, passed, done), 1, 2)

    def probability(self, paths: Paths, transition: Float[Array, "T S A S"] | None = None) -> Float[np.ndarray, " B"]:
        """How likely the actions of a path lead along its states: 1 in a deterministic world."""
        chances = self.transition if transition is None else np.asarray(transition)
        if chances is None:
            return np.ones(len(paths))
        states, actions = np.asarray(paths.symbols), np.asarray(paths.actions)
        moves = np.arange(actions.shape[1]) < np.asarray(paths.lengths)[:, None] - 1
        edge = states[:, :-1], actions, states[:, 1:]
        steps = chances[edge] if transition is None else chances[np.arange(actions.shape[1]), *edge]
        return np.where(moves, steps, 1.0).prod(1)

    def met(self, states: Int[np.ndarray, "B N"], rewards: Float[np.ndarray, " B"]) -> Bool[np.ndarray, " B"]:
        """Which logged paths, PAD behind their ends, meet the goal already: by R_goal, or in a state on the way."""
        if self.goal is None:
            return np.zeros(len(states), bool)
        if self.ends is None:
            return rewards >= float(self.goal.x)  # pyright: ignore[reportAttributeAccessIssue]
        return (self.ends[marks.visited(states, self.marks) * len(self.states) + states] & (states != PAD)).any(1)

    def recourse(
        self,
        log: Log,
        config: Config = Config(),
        *,
        method: Method = "auto",
        noise: Noise = "fresh",
        seed: int = 0,
    ) -> Any:
        """A recourse for every path of a log that misses the goal, in one frame; see `jobs.recourse_log`."""
        from pprjax.logs import jobs

        return jobs.recourse_log(self, log, config, method=method, noise=noise, seed=seed)

    def save(self, folder: str | Path) -> None:
        """Write transitions.parquet, policies.parquet and fit.json to a folder, to be looked at."""
        folder = output_folder(folder)
        weights = self.transition
        if weights is None:
            assert self.next_state is not None
            s, a = np.nonzero(self.next_state >= 0)
            target, prob = self.next_state[s, a], np.ones(len(s))
        else:
            s, a, target = np.nonzero(weights)
            prob = weights[s, a, target]
        world = {
            "state": self.states[s].tolist(),
            "action": self.actions[a].tolist(),
            "next": self.states[target].tolist(),
            "prob": prob,
            "reward": self.reward[s, a],
            "ends": self.terminal[target],
        }
        write_table(pl.DataFrame(world), folder / "transitions.parquet")
        agent, state, action, count = (self.own[c].to_numpy() for c in ("agent", "state", "action", "count"))
        total = self.own.select(pl.col("count").sum().over("agent", "state")).to_series().to_numpy()
        prob = imitation.smoothed(count, total, self.shared[state, action], self.smoothing)
        policies = {
            "agent": self.agents[agent].tolist(),
            "state": self.states[state].tolist(),
            "action": self.actions[action].tolist(),
            "count": count,
            "prob": prob,
        }
        write_table(pl.DataFrame(policies), folder / "policies.parquet")
        summary = {
            "num_states": len(self.states),
            "num_actions": len(self.actions),
            "num_agents": len(self.agents),
            "deterministic": self.deterministic,
            "max_steps": self.max_steps,
            "smoothing": self.smoothing,
            "held_out_log_likelihood": {str(m): _json(v) for m, v in self.likelihoods.items()},
            "goal_accuracy": _json(self.goal_accuracy),
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


def fit(log: Log, goal: str | None = None, *, smoothing: float | None = None, max_steps: int | None = None) -> Fitted:
    """Count a world and its agents out of a log.

    The world is deterministic if the same action in the same state always led to the same next state; steps that the
    log does not have are not available. P_A is as in `pprjax.logs.imitation`.

    Args:
        goal: "state=X": to arrive in state X, where a path then ends; "reward>=x": to earn x; "good": to end in a
            state in which more of the logged paths were labelled good than bad, of those that have visited, or not,
            the same of at most two marked states where that tells better (`pprjax.logs.marks`); None: Eq. 5 as printed.
        smoothing: m, above 0; default: of a few, the best on held-out paths.
        max_steps: the largest number of actions of a recourse; default: that of the longest path.

    Raises:
        ValueError: the goal is none of these, its state, label or rewards are not in the log, an option is out of
            range, or chance decides in a world of more than 512 states.
    """
    if smoothing is not None and not (np.isfinite(smoothing) and smoothing > 0):
        raise ValueError(f"smoothing: expected a finite number above 0, got {smoothing}")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps: expected at least 1, got {max_steps}")
    counts = log.counts
    states, actions = _natural([counts["state"], counts["next"]]), _natural([counts["action"]])
    agents = _natural([counts["agent"]])
    numbered = counts.select(
        agent=numbers(counts["agent"], agents),
        state=numbers(counts["state"], states),
        action=numbers(counts["action"], actions),
        next=numbers(counts["next"], states),
        held="held",
        count="count",
        reward="reward",
    )
    shape = len(states), len(actions)
    edges = numbered.group_by("state", "action", "next").agg(pl.col("count", "reward").sum())
    s, a, target, count, paid = (edges[c].to_numpy() for c in ("state", "action", "next", "count", "reward"))
    times, reward = np.zeros(shape, np.int64), np.zeros(shape)
    np.add.at(times, (s, a), count)
    np.add.at(reward, (s, a), paid)
    deterministic = len(s) == (times > 0).sum()
    room = np.inf if deterministic else MAX_STOCHASTIC_STATES / len(states)
    condition, ends, marked, accuracy = _goal(goal, log, states, int(min(marks.MAX_MARKS, np.log2(max(room, 1)))))
    terminal = times.sum(1) == 0
    terminal |= False if ends is None or marked.size else ends
    next_state = transition = None
    if deterministic:
        next_state = np.full(shape, -1, np.int32)
        next_state[s, a] = target
    elif len(states) > MAX_STOCHASTIC_STATES:
        raise ValueError(
            f"log: chance decides in this world, and it has {len(states)} states, more than {MAX_STOCHASTIC_STATES}"
        )
    else:
        transition = np.zeros((*shape, len(states)))
        transition[s, a, target] = count / times[s, a]
    likelihoods = {} if smoothing is not None else _likelihoods(numbered, shape)
    if smoothing is None:
        known = {m: value for m, value in likelihoods.items() if np.isfinite(value)}
        smoothing = max(known, key=known.__getitem__) if known else 1.0
    own = numbered.group_by("agent", "state", "action").agg(pl.col("count").sum()).sort("agent", "state", "action")
    return Fitted(
        states=states,
        actions=actions,
        agents=agents,
        next_state=next_state,
        transition=transition,
        reward=np.where(times > 0, reward / np.maximum(times, 1), 0.0),
        terminal=terminal,
        goal=condition,
        ends=ends,
        marks=marked,
        max_steps=log.longest - 1 if max_steps is None else max_steps,
        smoothing=smoothing,
        likelihoods=likelihoods,
        goal_accuracy=accuracy,
        shared=imitation.shared_policy(times),
        own=own,
    )


def numbers(values: pl.Series, names: np.ndarray) -> pl.Series:
    """The place of each value, a string, among the names."""
    table = {str(name): i for i, name in enumerate(names.tolist())}
    return values.replace_strict(table, return_dtype=pl.Int32)


def _natural(columns: list[pl.Series]) -> np.ndarray:
    """The distinct values, sorted; as integers where all are whole numbers in their usual spelling."""
    values = pl.concat([c.rename("") for c in columns]).unique().to_list()
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", v) for v in values):
        return np.array(sorted(map(int, values)), np.int64)
    return np.array(sorted(values), object)


def _goal(
    goal: str | None, log: Log, states: np.ndarray, most_marks: int
) -> tuple[goals.Goal | None, Bool[np.ndarray, " R"] | None, Int[np.ndarray, " k"], float]:
    """The condition, what meets it where it is one on states, the marks, and its accuracy where it was learned."""
    nothing, unknown = np.zeros(0, np.int32), float("nan")
    if goal is None:
        return None, None, nothing, unknown
    found = re.fullmatch(r"\s*(state|reward|good)\s*(=|>=)?\s*(.*?)\s*", goal, re.DOTALL)
    kind, sign, value = found.groups() if found else ("", None, "")
    if kind == "state" and sign == "=":
        ends = np.array([str(s) == value for s in states.tolist()])
        if not ends.any():
            raise ValueError(f"goal: no path of the log visits the state {value!r}")
        return goals.ends_in(ends), ends, nothing, unknown
    if kind == "reward" and sign == ">=":
        if not log.rewarded:
            raise ValueError("goal: reward>= needs a column of rewards; name it with `reward`")
        try:
            return goals.at_least(float(value)), None, nothing, unknown
        except ValueError:
            raise ValueError(f"goal: expected a number behind reward>=, got {value!r}") from None
    if kind == "good" and not sign and not value:
        if not log.labelled:
            raise ValueError('goal: "good" needs a column of labels; name it with `good`')
        told = marks.learn(partial(_votes, log, states), most_marks)
        if not told.good.any():
            raise ValueError("goal: in no state do more good paths end than bad ones")
        return goals.ends_in(told.good), told.good, told.marks, told.accuracy
    raise ValueError(f'goal: expected "state=X", "reward>=x" or "good", got {goal!r}')


def _votes(
    log: Log, states: np.ndarray, marked: Int[np.ndarray, " k"]
) -> tuple[marks.Votes, Int[np.ndarray, " M"], Int[np.ndarray, " M"], marks.Votes]:
    """The labels of a log, counted as `marks.learn` wants them."""
    from pprjax.logs.log import held_out  # which needs this module

    size, parts = len(states), []
    counted = [(pl.col("good") == good) & (pl.col("held") == held) for held in (False, True) for good in (True, False)]
    votes = [condition.sum().cast(pl.Int64).alias(f) for condition, f in zip(counted, marks.Votes._fields, strict=True)]
    for paths in log.frames():
        rows = paths.select(pl.int_range(pl.len()).alias("path"), "good", held_out().alias("held"), state="states")
        rows = rows.explode("state")
        rows = rows.with_columns(state=numbers(rows["state"], states))
        has = [(pl.col("state") == mark).any().over("path") * 2**j for j, mark in enumerate(marked.tolist())]
        rows = rows.with_columns(cell=sum(has, pl.lit(0)) * size + pl.col("state").last().over("path"))
        rows = rows.unique(["path", "state"])
        parts += [rows.group_by("cell", "state").agg(votes)]
        parts += [rows.unique("path").with_columns(state=pl.lit(-1, pl.Int32)).group_by("cell", "state").agg(votes)]
    table = pl.concat(parts).group_by("cell", "state").sum().sort("cell", "state")
    every, via = table.filter(pl.col("state") < 0), table.filter(pl.col("state") >= 0)
    whole = np.zeros((len(votes), size << len(marked)), np.int64)
    whole[:, every["cell"].to_numpy()] = every.select(marks.Votes._fields).to_numpy().T
    split = marks.Votes(*(via[name].to_numpy() for name in marks.Votes._fields))
    return marks.Votes(*whole), via["cell"].to_numpy(), via["state"].to_numpy(), split


def _likelihoods(numbered: pl.DataFrame, shape: tuple[int, int]) -> dict[float, float]:
    by = ["agent", "state", "action"]
    sums = numbered.group_by(by).agg(
        trained=(pl.col("count") * ~pl.col("held")).sum(), held=(pl.col("count") * pl.col("held")).sum()
    )
    sums = sums.sort(by).with_columns(total=pl.col("trained").sum().over("agent", "state"))
    s, a = sums["state"].to_numpy(), sums["action"].to_numpy()
    trained, held, total = (sums[c].to_numpy() for c in ("trained", "held", "total"))
    times = np.zeros(shape, np.int64)
    np.add.at(times, (s, a), trained)
    prior = np.where(times > 0, imitation.shared_policy(times), 0.0)[s, a]
    return {m: imitation.held_out_log_likelihood(trained, total, prior, held, m) for m in imitation.SMOOTHINGS}


def _json(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
