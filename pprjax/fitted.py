"""What a log tells: the world, by counting, and how each agent acts in it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from pprjax import goals, imitation
from pprjax.config import Config
from pprjax.io import output_folder, write_json, write_table
from pprjax.paths import PAD
from pprjax.policy import TablePolicy
from pprjax.task import Task

if TYPE_CHECKING:
    from pprjax.logs import Log

Method = Literal["auto", "exact", "learned"]
"""How a recourse is found: certified, by Algorithm 1, or certified where that is possible."""

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
    ends: np.ndarray | None  # bool[S], the states that meet the goal where it is one on states
    max_steps: int  # horizon: actions of the longest path
    smoothing: float  # m of `pprjax.imitation`
    likelihoods: dict[float, float]  # of each m that was tried, the mean log-likelihood of a held-out step
    goal_accuracy: float  # of "good" told by the final state, on held-out paths; NaN for other goals
    shared: np.ndarray  # float64[S, A], P_all
    own: pl.DataFrame  # agent, state, action (their numbers), count; sorted

    @property
    def deterministic(self) -> bool:
        return self.transition is None

    @cached_property
    def env(self) -> Any:
        """The world as a TabularMDP; it starts in state 0, see `task`."""
        world = importlib.metadata.entry_points(group="pprjax.worlds")["tabular"].load()
        return world(self.next_state, self.reward, self.terminal, 0, self.max_steps, transition=self.transition)

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

    def task(self, agent: int, start: int) -> Task:
        """The task of an agent whose paths begin in a state, both by their numbers."""
        params = self.env.default_params.replace(start=jnp.int32(start))
        return Task(self.env, TablePolicy(jnp.asarray(self.probs(agent))), goal=self.goal, params=params)

    def probability(
        self, states: Int[np.ndarray, "B T"], actions: Int[np.ndarray, "B M"], lengths: Int[np.ndarray, " B"]
    ) -> Float[np.ndarray, " B"]:
        """How likely these actions lead along these states: 1 in a deterministic world."""
        if self.transition is None:
            return np.ones(len(states))
        moves = np.arange(actions.shape[1]) < lengths[:, None] - 1
        steps = self.transition[states[:, :-1], actions, states[:, 1:]]
        return np.where(moves, steps, 1.0).prod(1)

    def met(self, states: Int[np.ndarray, "B N"], rewards: Float[np.ndarray, " B"]) -> Bool[np.ndarray, " B"]:
        """Which logged paths, PAD behind their ends, meet the goal already: by R_goal, or by a state on the way."""
        if self.goal is None:
            return np.zeros(len(states), bool)
        if self.ends is None:
            return rewards >= float(self.goal.x)  # pyright: ignore[reportAttributeAccessIssue]
        return (self.ends[states] & (states != PAD)).any(1)

    def recourse(
        self,
        log: Log,
        config: Config = Config(),
        *,
        method: Method = "auto",
        seed: int = 0,
    ) -> Any:
        """A recourse for every path of a log that misses the goal, in one frame; see `pprjax.bulk.recourse_log`."""
        from pprjax import bulk

        return bulk.recourse_log(self, log, config, method=method, seed=seed)

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
            "goal_states": None if self.ends is None else self.states[self.ends],
        }
        write_json(summary, folder / "fit.json")


def fit(log: Log, goal: str | None = None, *, smoothing: float | None = None, max_steps: int | None = None) -> Fitted:
    """Count a world and its agents out of a log.

    The world is deterministic if the same action in the same state always led to the same next state; steps that the
    log does not have are not available. P_A is as in `pprjax.imitation`.

    Args:
        goal: "state=X": to arrive in state X, where a path then ends; "reward>=x": to earn x; "good": to end in a
            state in which more of the logged paths were labelled good than bad; None: Eq. 5 as printed.
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
    condition, ends, accuracy = _goal(goal, log, states)
    shape = len(states), len(actions)
    edges = numbered.group_by("state", "action", "next").agg(pl.col("count", "reward").sum())
    s, a, target, count, paid = (edges[c].to_numpy() for c in ("state", "action", "next", "count", "reward"))
    times, reward = np.zeros(shape, np.int64), np.zeros(shape)
    np.add.at(times, (s, a), count)
    np.add.at(reward, (s, a), paid)
    terminal = times.sum(1) == 0
    terminal |= False if ends is None else ends
    next_state = transition = None
    if len(s) == (times > 0).sum():
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
    goal: str | None, log: Log, states: np.ndarray
) -> tuple[goals.Goal | None, Bool[np.ndarray, " S"] | None, float]:
    """The condition, the states that meet it where it is one on states, and its accuracy where it was learned."""
    if goal is None:
        return None, None, float("nan")
    found = re.fullmatch(r"\s*(state|reward|good)\s*(=|>=)?\s*(.*?)\s*", goal, re.DOTALL)
    kind, sign, value = found.groups() if found else ("", None, "")
    if kind == "state" and sign == "=":
        ends = np.array([str(s) == value for s in states.tolist()])
        if not ends.any():
            raise ValueError(f"goal: no path of the log visits the state {value!r}")
        return goals.ends_in(ends), ends, float("nan")
    if kind == "reward" and sign == ">=":
        if not log.rewarded:
            raise ValueError("goal: reward>= needs a column of rewards; name it with `reward`")
        try:
            return goals.at_least(float(value)), None, float("nan")
        except ValueError:
            raise ValueError(f"goal: expected a number behind reward>=, got {value!r}") from None
    if kind == "good" and not sign and not value:
        if log.ends["good"].null_count():
            raise ValueError('goal: "good" needs a column of labels; name it with `good`')
        ends, accuracy = _good_ends(log, states)
        if not ends.any():
            raise ValueError("goal: in no state do more good paths end than bad ones")
        return goals.ends_in(ends), ends, accuracy
    raise ValueError(f'goal: expected "state=X", "reward>=x" or "good", got {goal!r}')


def _good_ends(log: Log, states: np.ndarray) -> tuple[Bool[np.ndarray, " S"], float]:
    """In which states more good paths end than bad; and how often that told right on held-out paths."""
    ends = log.ends.with_columns(number=numbers(log.ends["state"], states))
    votes = np.zeros((2, len(states)), np.int64)  # of the held-out paths, of the others
    sign = np.where(ends["good"].to_numpy(), 1, -1)
    np.add.at(votes, (1 - ends["held"].to_numpy(), ends["number"].to_numpy()), sign * ends["count"].to_numpy())
    held = ends.filter("held")
    told = votes[1][held["number"].to_numpy()] > 0
    right = held["count"].to_numpy()[told == held["good"].to_numpy()].sum()
    accuracy = right / held["count"].sum() if held.height else float("nan")
    return votes.sum(0) > 0, float(accuracy)


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
