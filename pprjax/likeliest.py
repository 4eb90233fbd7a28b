"""The likeliest way along symbols: what an agent did that was only seen to pass them.

Several actions may lead to the same symbol, and several states may show it. Which way a path went is then
decided for the path as a whole, by dynamic programming over the states that may show each symbol (Viterbi).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.paths import PAD
from pprjax.task import State, Task


@struct.dataclass
class Steps:
    """Every step of a small deterministic world of S states, under a P_A without memory."""

    next_state: jax.Array  # int32[S, A], the state each action leads to
    usable: jax.Array  # bool[S, A], the action is available
    ended: jax.Array  # bool[S, A], the world ends a path with it
    reward: jax.Array  # float[S, A]
    log_prob: jax.Array  # float[S, A]
    symbol: jax.Array  # int32[S]


def all_steps(task: Task) -> Steps | None:
    """None where there is no such table: the world does not say that it is deterministic, it is not small or can't name
    its states, or P_A remembers the path."""
    states = task.all_states() if getattr(task.env, "deterministic", False) else None
    if states is None or jax.tree.leaves(task.policy.init()):
        return None
    next_state, usable, ended, reward = moves(task, states)
    log_prob = jax.vmap(lambda state: task.log_probs(task.policy.init(), state)[1])(states)
    return Steps(next_state, usable, ended, reward, log_prob, symbol=jax.vmap(task.symbol)(states))


def moves(
    task: Task, states: State
) -> tuple[Int[Array, "S A"], Bool[Array, "S A"], Bool[Array, "S A"], Float[Array, "S A"]]:
    """Of all states and actions of a small deterministic world: where they lead, which there are, which end a path, and
    what they pay."""
    return jax.vmap(lambda state: moves_of(task, state))(states)


def moves_of(
    task: Task, state: State
) -> tuple[Int[Array, " A"], Bool[Array, " A"], Bool[Array, " A"], Float[Array, " A"]]:
    """The same of one state."""
    step = jax.vmap(lambda a: task.step(jax.random.key(0), state, a))
    after, reward, ended = step(jnp.arange(task.num_actions))
    return jax.vmap(task.state_id)(after), task.available(state), ended, reward


def likeliest_actions(steps: Steps, symbols: Int[Array, " n"], length: Int[Array, ""]) -> Int[Array, "n-1 S"]:
    """The action to take in each state at each symbol, PAD where none leads to the next.

    Of all ways along the symbols it is the one that gets furthest; of those the one with the fewest actions of
    probability 0; then the likeliest, Π P_A(s_t, a_t); then the one with the largest R_goal; then the first actions.
    """
    impossible = jnp.isneginf(steps.log_prob)
    own = jnp.stack(
        [
            jnp.ones_like(steps.reward),
            -impossible.astype(steps.reward.dtype),
            jnp.where(impossible, 0.0, steps.log_prob).astype(steps.reward.dtype),
            steps.reward,
        ]
    )

    def back(to_come, x):  # to_come: [4, S], of the best way from a state on, in the order of what counts
        wanted, inside = x
        leads = steps.usable & (steps.symbol[steps.next_state] == wanted) & inside
        worth = own + jnp.where(steps.ended, 0.0, to_come[:, steps.next_state])
        best = leads
        for rank in worth:
            best &= rank == jnp.max(rank, axis=1, where=best, initial=-jnp.inf, keepdims=True)
        action = jnp.argmax(best, axis=1).astype(jnp.int32)
        chosen = jnp.take_along_axis(worth, action[None, :, None], axis=2)[..., 0]
        onward = leads.any(1)
        return jnp.where(onward, chosen, 0.0), jnp.where(onward, action, PAD)

    inside = jnp.arange(1, symbols.shape[0]) < length
    nothing = jnp.zeros((len(own), steps.symbol.shape[0]), steps.reward.dtype)
    return jax.lax.scan(back, nothing, (symbols[1:], inside), reverse=True)[1]
