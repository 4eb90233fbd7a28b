"""A world that remembers of a path what its rules ask: the product of a world and an automaton.

Its states are pairs (s, q): a state of the world, and the state of the automaton of all rules after the symbols so far.
Whatever a goal, an agent or a reward reads is the world's own. What rules forbid is forbidden by `Task.available`, as
what other constraints forbid.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax import declare, ragged
from pprjax.automaton import Automaton
from pprjax.policy import TablePolicy
from pprjax.worlds import begin_in, offered

if TYPE_CHECKING:  # which imports this module
    from pprjax.task import Task

WITH_MEMORY = ("num_states", "state_id", "state_from_id", "encoder")
"""What is another in the product, where the world has it."""


@struct.dataclass
class RuledState:
    """A state of the product."""

    inner: Any  # of the world
    q: jax.Array  # int32[], of the automaton


@dataclasses.dataclass(frozen=True)
class RuledWorld:
    """The product. It offers what the world does, but for where chance leads, which would be too large."""

    env: Any
    rules: tuple[declare.Rule, ...]
    deterministic: bool

    @property
    def automaton(self) -> Automaton:
        """Of all rules."""
        return declare.product(self.rules)

    def __getattr__(self, name: str) -> Any:
        if name in WITH_MEMORY:
            own = getattr(self.env, name)  # an AttributeError where the world lacks it
            return self._num_states(own) if name == "num_states" else partial(getattr(self, f"_{name}"), own)
        return offered(self, name)

    def begin_in(self, state: Any, params: Any) -> RuledState:
        return self._started(begin_in(self.env, state, params), params)

    def _started(self, inner: Any, params: Any) -> RuledState:
        return RuledState(inner, self.automaton.after(jnp.int32(0), self.env.symbol(inner, params)))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Array, RuledState]:
        state = self._started(self.env.reset_env(key, params)[1], params)
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: RuledState, action: Int[Array, ""], params: Any):
        _, inner, *rest = self.env.step_env(key, state.inner, action, params)
        moved = RuledState(inner, self.automaton.after(state.q, self.env.symbol(inner, params)))
        return self.observe(key, moved, action, params), moved, *rest

    def observe(self, key: jax.Array, state: RuledState, action: Any, params: Any) -> Float[Array, " n+Q"]:
        """The world's observation, and q as one of Q numbers."""
        seen = jnp.ravel(self.env.observe(key, state.inner, action, params)).astype(jnp.result_type(float))
        return jnp.concatenate([seen, jax.nn.one_hot(state.q, self.automaton.num_states, dtype=seen.dtype)])

    def astray(self, state: RuledState, symbol: Int[Array, "*b"]) -> Bool[Array, "*b"]:
        """Whether a path can't keep its rules any more once this symbol follows."""
        return jnp.asarray(self.automaton.hopeless)[self.automaton.after(state.q, symbol)]

    def _num_states(self, own: int) -> int:
        return own * self.automaton.num_states

    def _state_id(self, own: Any, state: RuledState, params: Any) -> Int[Array, ""]:
        return own(state.inner, params) * self.automaton.num_states + state.q

    def _state_from_id(self, own: Any, number: Int[Array, ""], params: Any) -> RuledState:
        inner, q = jnp.divmod(number, self.automaton.num_states)
        return RuledState(own(inner, params), jnp.asarray(q, jnp.int32))

    def _encoder(self, own: Any, width: int) -> Any:
        from pprjax.learn.networks import WithMemory  # here: only the learner needs it, and Flax takes a while

        return WithMemory(own(width), self.automaton.num_states, width)


def with_rules(task: Task) -> Task:
    """The task in the product of its world and its rules, which any method then keeps; itself where it has none."""
    if isinstance(task.env, RuledWorld) or task.constraints is None or not task.constraints.rules:
        return task
    env, policy = RuledWorld(task.env, tuple(task.constraints.rules), task.deterministic), task.policy
    if isinstance(policy, TablePolicy):
        policy = TablePolicy(ragged.repeated(policy.probs, env.automaton.num_states))
    return task.replace(env=env, policy=policy)


def without_rules(task: Task) -> Task:
    """The task in its own world, as before `with_rules`; its constraints stay."""
    if not isinstance(task.env, RuledWorld):
        return task
    policy = task.policy
    if isinstance(policy, TablePolicy):
        policy = TablePolicy(ragged.every(policy.probs, task.env.automaton.num_states))
    return task.replace(env=task.env.env, policy=policy)


def own_state(state: Any) -> Any:
    """The state of the world itself."""
    return state.inner if isinstance(state, RuledState) else state


def own_world(env: Any) -> Any:
    """The world itself."""
    return env.env if isinstance(env, RuledWorld) else env


def accepted(task: Task, states: Any) -> Bool[np.ndarray, " N"] | bool:
    """Whether a path that ends in one of these states keeps all rules. On the host."""
    return task.env.automaton.accepting[states.q] if isinstance(task.env, RuledWorld) else True
