"""The world of a log as a graph, with what its goal and its rules remember of a path."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.certify.graph import Graph
from pprjax.constraints import Constraints
from pprjax.declare import product
from pprjax.limits import TooLargeError
from pprjax.logs import marks
from pprjax.logs.fitted import Fitted
from pprjax.reward import LOG_FLOOR, Habit, link

MAX_STEPS = 2**26
"""Steps of the graph, at most."""


@dataclasses.dataclass(frozen=True)
class Skeleton:
    """What is the same for all agents that may take the same steps.

    Row m·S + s is state s with memory m, of the marks and of the rules.
    """

    first: np.ndarray  # int64[R + 1]
    own: np.ndarray  # int64[E'], which step of the log each is
    target: np.ndarray  # int32[E']
    ends: np.ndarray  # bool[R], see `Graph`
    cut: np.ndarray  # bool[R]
    begin: np.ndarray  # int64[S], the row in which a path that begins in a state is


def skeleton(fitted: Fitted, allowed: Bool[np.ndarray, " E"] | None = None) -> Skeleton:
    """The graph of a fitted world whose goal is one on states, or none.

    Args:
        allowed: which steps of the log a path may take; None: all.

    Raises:
        TooLargeError: with what is remembered it has more than MAX_STEPS steps.
    """
    steps, size = fitted.steps, len(fitted.states)
    after, accepting, hopeless = _memory(fitted)
    memories = len(accepting)
    if memories * len(steps.target) > MAX_STEPS:
        raise TooLargeError(
            f"log: its {len(steps.target):,} steps, with {memories:,} different things that the goal and the rules "
            f"remember of a path, are more than {MAX_STEPS:,}; ask for fewer rules, or for fewer states to visit"
        )
    met = np.ones((memories, size), bool)
    terminal = np.broadcast_to(fitted.terminal, met.shape)
    if fitted.ends is not None:
        met = np.repeat(fitted.ends.reshape(-1, size), memories // (len(fitted.ends) // size), axis=0)
        terminal = terminal | met
    moved = after[:, steps.target]
    valid = ~terminal[:, steps.state] & ~hopeless[moved]
    if allowed is not None:
        valid &= allowed
    memory, own = np.nonzero(valid)
    row = memory * size + steps.state[own]
    first = np.searchsorted(row, np.arange(memories * size + 1))
    stops = (np.diff(first) == 0) & np.repeat(accepting, size)
    anywhere = fitted.goal is None
    return Skeleton(
        first=first,
        own=own,
        target=(moved[valid].astype(np.int64) * size + steps.target[own]).astype(np.int32),
        ends=stops & met.ravel(),
        cut=np.repeat(accepting, size) & ~stops if anywhere else np.zeros(memories * size, bool),
        begin=after[0].astype(np.int64) * size + np.arange(size),
    )


def _memory(fitted: Fitted) -> tuple[Int[np.ndarray, "M S"], np.ndarray, np.ndarray]:
    """Each memory after one more state; which are accepted; and which can't be any more. The first is that of nothing.

    A memory is the bits of the marks and the state of the rules' automaton.
    """
    size = len(fitted.states)
    bit = marks.visited(np.arange(size)[:, None], fitted.marks)[:, 0]
    bits = np.arange(2 ** len(fitted.marks))[:, None] | bit
    if not fitted.all_rules:
        return bits.astype(np.int32), np.ones(len(bits), bool), np.zeros(len(bits), bool)
    rules = product(fitted.all_rules)
    place = np.minimum(np.searchsorted(rules.symbols, np.arange(size)), len(rules.symbols) - 1)
    kind = np.where(rules.symbols[place] == np.arange(size), place, len(rules.symbols))
    after = bits[:, None] * rules.num_states + rules.next_state[:, kind][None]
    both = len(bits) * rules.num_states
    accepting, hopeless = (np.tile(x, len(bits)) for x in (rules.accepting, rules.hopeless))
    return after.reshape(both, size).astype(np.int32), accepting, hopeless


def affordable(fitted: Fitted, agent: int) -> Bool[np.ndarray, " E"]:
    """Which steps of the log cost an agent no more than `max_regret`."""
    regrets = _habits(fitted, fitted.probs(agent), "regret")
    return np.asarray(Constraints(max_regret=fitted.max_regret).affords(jnp.asarray(regrets)))


def graph(fitted: Fitted, bones: Skeleton, agent: int, habit: Habit) -> Graph:
    """The graph of an agent, by its number."""
    steps, size = fitted.steps, len(fitted.states)
    probs = fitted.probs(agent)
    log_prob = np.log(probs)
    return Graph(
        first=bones.first,
        target=bones.target,
        reward=steps.reward[bones.own],
        habit=_habits(fitted, probs, habit)[bones.own],
        log_prob=log_prob[bones.own],
        action=steps.action[bones.own],
        symbol=np.tile(np.arange(size, dtype=np.int32), len(bones.ends) // size),
        ends=bones.ends,
        cut=bones.cut,
        horizon=fitted.max_steps,
    )


def _habits(fitted: Fitted, probs: Float[np.ndarray, " E"], habit: Habit) -> Float[np.ndarray, " E"]:
    """What each step adds to R_policy."""
    if habit == "link":
        return np.asarray(link(probs, len(fitted.actions)), np.float64)
    floored = np.maximum(np.log(probs), LOG_FLOOR)
    favourite = np.full(len(fitted.states), LOG_FLOOR)
    np.maximum.at(favourite, fitted.steps.state, floored)
    return floored - favourite[fitted.steps.state]
