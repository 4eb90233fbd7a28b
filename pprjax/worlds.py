"""Worlds made of an environment that does not say all that pprjax asks: what it lacks is told, or remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Int

from pprjax.errors import UserError
from pprjax.ragged import repeated

OF_STATE = (
    "symbol",
    "available",
    "reached_goal",
    "is_terminated",
    "goal_to_go",
    "steps_to_go",
    "promise",
    "next_promise",
    "next_symbols",
    "end_action",
)
"""What a world may be asked about a state, its first argument."""

OF_WORLD = ("num_actions", "default_params", "goal_bound", "action_set_size")
"""What it may be asked about itself."""


GOES_WITH = {
    "next_symbols": {"symbol"},
    "state_from_id": {"state_id"},
    "successors": {"state_id"},
    "transition_probs": {"state_id"},
}
"""What an environment says of its own symbols and numbers, and not of those that it is told."""


class Said(TypedDict, total=False):
    """What may be said of an environment. A function takes (state, params), as a method of a world does."""

    symbol: Callable[[Any, Any], Any]
    available: Callable[[Any, Any], Any]
    reached_goal: Callable[[Any, Any], Any]
    goal_to_go: Callable[[Any, Any], Any]
    steps_to_go: Callable[[Any, Any], Any]
    state_id: Callable[[Any, Any], Any]
    num_states: int
    deterministic: bool


@dataclasses.dataclass(frozen=True)
class ToldWorld:
    """An environment, and what is said of it. That takes the place of what the environment says itself."""

    env: Any
    said: tuple[tuple[str, Any], ...]  # of `Said`, a name each

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        said = dict(self.said)
        if said.keys() & GOES_WITH.get(name, set()):
            raise AttributeError(name)
        return said[name] if name in said else getattr(self.env, name)


def told(env: Any, said: Said) -> Any:
    """The environment as a world of which this is said; itself where nothing is.

    Raises:
        TypeError: env is no gymnax Environment of version 1.0 or later, something is said in another way, or nothing
            says what a symbol is; the message names it.
        ValueError: num_states is below 1, or not said of numbered states.
    """
    _check_env(env)
    given = {name: value for name, value in said.items() if value is not None}
    if unknown := given.keys() - Said.__annotations__.keys():
        raise TypeError(f"Task: got {min(unknown)!r}, which is none of its arguments")
    if isinstance(env, ActedWorld):
        if "symbol" in given:
            raise TypeError("symbol: expected none beside pprjax.actions_as_symbols, whose symbols are actions")
        return ActedWorld(_with(env.env, given))
    name_of = env_name(env)
    if "symbol" not in given and not hasattr(env, "symbol"):
        raise TypeError(
            f"symbol: expected a function of (state, params), for {name_of} has no `symbol` of its own; or "
            "pprjax.actions_as_symbols(env) as the environment"
        )
    return _with(env, given)


def _with(env: Any, given: dict[str, Any]) -> Any:
    if not given:
        return env
    for name, value in given.items():
        if name == "deterministic" and not isinstance(value, bool):
            raise TypeError(f"deterministic: expected True or False, got {value!r}")
        if name == "num_states" and (not isinstance(value, int) or value < 1):
            raise UserError(f"num_states: expected the number of states, at least 1, got {value!r}")
        if name not in ("deterministic", "num_states") and not callable(value):
            raise TypeError(f"{name}: expected a function of (state, params), got {type(value).__name__}")
    if "state_id" in given and "num_states" not in given and not hasattr(env, "num_states"):
        raise UserError(
            f"num_states: expected the number of states that state_id tells apart; {env_name(env)} has none"
        )
    before = dict(env.said) if isinstance(env, ToldWorld) else {}
    return ToldWorld(env.env if before else env, tuple(sorted((before | given).items(), key=lambda pair: pair[0])))


def _check_env(env: Any) -> None:
    if {base.__module__.partition(".")[0] for base in type(env).__mro__} & {"gymnasium", "gym"}:
        raise TypeError(
            f"env: expected a gymnax Environment, got {type(env).__name__} of Gymnasium; a step must be a function of "
            "(key, state, action, params) that JAX traces"
        )
    if hasattr(env, "step_env") and not hasattr(env, "observe"):
        raise TypeError(
            f"env: expected a gymnax Environment of version 1.0 or later, got {type(env).__name__}, which has no "
            "`observe(key, state, action, params)`"
        )
    if missing := [name for name in ("reset_env", "step_env") if not hasattr(env, name)]:
        raise TypeError(f"env: expected a gymnax Environment, got {type(env).__name__}, which has no `{missing[0]}`")
    space = _action_space(env.env if isinstance(env, ActedWorld) else env)
    if space is not None and not hasattr(space, "n"):
        raise TypeError(
            "env: expected actions that are numbered, a Discrete space, got "
            f"{type(space).__name__}{list(space.shape)} of {env_name(env)}; wrap it so that it offers a few of them"
        )


def _action_space(env: Any) -> Any:
    """Of a world that tells it, as gymnax's do; else None."""
    try:
        return env.action_space(env.default_params)
    except (AttributeError, NotImplementedError):
        return None


@struct.dataclass
class ActedState:
    """A state, and what was done last."""

    inner: Any  # of the environment
    last: jax.Array  # int32[], the last action; A at the start


@dataclasses.dataclass(frozen=True)
class ActedWorld:
    """An environment whose symbols are actions. See `actions_as_symbols`."""

    env: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("num_states", "state_id", "state_from_id"):
            known = getattr(self.env, name)  # an AttributeError where the environment lacks it
            return known * (self.num_actions + 1) if name == "num_states" else getattr(self, f"_{name}")
        if name in ("deterministic", "encoder"):
            return getattr(self.env, name)
        return offered(self, name)

    def begin_in(self, state: Any, params: Any) -> ActedState:
        return ActedState(begin_in(self.env, state, params), jnp.int32(self.num_actions))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Array, ActedState]:
        seen, inner = self.env.reset_env(key, params)
        return seen, ActedState(inner, jnp.int32(self.num_actions))

    def step_env(self, key: jax.Array, state: ActedState, action: Int[Array, ""], params: Any):
        seen, inner, *rest = self.env.step_env(key, state.inner, action, params)
        return seen, ActedState(inner, jnp.asarray(action, jnp.int32)), *rest

    def observe(self, key: jax.Array, state: ActedState, action: Any, params: Any) -> Any:
        return self.env.observe(key, state.inner, action, params)

    def symbol(self, state: ActedState, params: Any) -> Int[Array, ""]:
        del params
        return state.last

    def next_symbols(self, state: ActedState, params: Any) -> Int[Array, " A"]:
        del state, params
        return jnp.arange(self.num_actions, dtype=jnp.int32)

    def _state_id(self, state: ActedState, params: Any) -> Int[Array, ""]:
        return self.env.state_id(state.inner, params) * (self.num_actions + 1) + state.last

    def _state_from_id(self, number: Int[Array, ""], params: Any) -> ActedState:
        inner, last = jnp.divmod(number, self.num_actions + 1)
        return ActedState(self.env.state_from_id(inner, params), jnp.asarray(last, jnp.int32))


def actions_as_symbols(env: Any) -> ActedWorld:
    """A world in which a path is what was done: the symbol of a state is the last of the A actions, and A at the start.

    For environments whose states are too many, or too fine, to be told apart by a symbol. Two paths are then close
    when they do nearly the same. Agents, goals, and functions given to `Task` read the environment's own state.

    Args:
        env: a gymnax Environment. It needs no `symbol`.
    """
    return ActedWorld(env)


def rows_of(env: Any, probs: Any) -> Any:
    """A table of the S states of an environment as one of the world's states, which also know the last action."""
    if not isinstance(env, ActedWorld) or not hasattr(env, "num_states"):
        return probs
    if getattr(probs, "shape", None) != (env.env.num_states, env.num_actions):
        return probs
    return repeated(probs, env.num_actions + 1)


def offered(world: Any, name: str) -> Any:
    """What the environment inside a world offers by this name, asked with the world's states.

    Raises:
        AttributeError: nothing that may be asked.
    """
    if name in OF_STATE:
        own = getattr(world.env, name)
        return lambda state, *rest: own(state.inner, *rest)
    if name in OF_WORLD:
        return getattr(world.env, name)
    raise AttributeError(f"{type(world).__name__} has no {name!r}")


def env_state(state: Any) -> Any:
    """The environment's own state."""
    return state.inner if isinstance(state, ActedState) else state


def env_itself(env: Any) -> Any:
    """The environment whose state that is, with what is said of it."""
    return env.env if isinstance(env, ActedWorld) else env


def env_name(env: Any) -> str:
    """The class of the environment itself."""
    return env_name(env.env) if isinstance(env, ToldWorld | ActedWorld) else type(env).__name__


def begin_in(env: Any, state: Any, params: Any) -> Any:
    """The world's state in which a path starts, given the environment's own."""
    return env.begin_in(state, params) if hasattr(env, "begin_in") else state
