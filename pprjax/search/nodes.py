"""Nodes of a search: prefixes of paths, what they earned, and what the edits behind them leave possible.

A node is a prefix. A child is a node and one more action. m, the smallest entry of the prefix's Levenshtein column, is
a bound: no path that goes on from here ends with fewer edits. With regret nothing is earned by going on but R_goal, so
where the world bounds the R_goal that is still to come,

    v(τ) = R_goal(τ) + λ_policy·R_policy(τ) ≤ R_goal so far + goal_bound + λ_policy·R_policy so far

for every path τ that goes on from here. With h(p) of Eq. 4 there is no such bound, and it is infinite.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax import edit_distance
from pprjax.config import Config
from pprjax.constraints import violations
from pprjax.paths import PAD
from pprjax.rollout import Original
from pprjax.task import Task


@struct.dataclass
class Nodes:
    """N prefixes of t actions. T = horizon."""

    state: Any  # the world's, leaves of [N, ...]
    carry: Any  # P_A's, before it has seen the state
    column: Any  # Levenshtein column, leaves of [N, ...]
    smallest: jax.Array  # int32[N], m
    goal: jax.Array  # float[N], R_goal so far
    charged: jax.Array  # float[N], R_policy so far
    log_prob: jax.Array  # float[N], Σ log P_A so far
    symbols: jax.Array  # int32[N, T + 1], PAD behind the end
    actions: jax.Array  # int32[N, T], PAD behind the end
    alive: jax.Array  # bool[N], there is a node here, and the world did not end it


@struct.dataclass
class Children:
    """The A actions of N nodes, before a step is taken."""

    carry: Any  # P_A's, after the node's state; leaves of [N, ...]
    available: jax.Array  # bool[N, A], of living nodes
    charged: jax.Array  # float[N, A], R_policy with this action
    log_prob: jax.Array  # float[N, A], Σ log P_A with this action
    smallest: jax.Array  # int32[N, A], m: of the child where its symbol is known, else of the node
    bound: jax.Array  # float[N, A], on v of all that goes on with this action


@struct.dataclass
class Best:
    """The best complete path for each distance e = 0 … E - 1. It meets the goal and keeps the constraints."""

    value: jax.Array  # float[E], v; -inf where none was found
    goal: jax.Array  # float[E], R_goal
    charged: jax.Array  # float[E], R_policy
    log_prob: jax.Array  # float[E], Σ log P_A
    reached: jax.Array  # bool[E], the world's own goal is reached
    terminated: jax.Array  # bool[E], ended by the world and not by the horizon or a dead end
    symbols: jax.Array  # int32[E, T + 1], PAD behind the end
    actions: jax.Array  # int32[E, T], PAD behind the end

    @property
    def at_most(self) -> Float[Array, " E"]:
        """The best v of at most e edits."""
        return jax.lax.cummax(jnp.asarray(self.value), axis=jnp.ndim(self.value) - 1)


def nothing(task: Task, num_distances: int) -> Best:
    """No path yet."""
    zeros, no = jnp.zeros(num_distances, jnp.result_type(float)), jnp.zeros(num_distances, bool)
    return Best(
        value=zeros - jnp.inf,
        goal=zeros,
        charged=zeros,
        log_prob=zeros,
        reached=no,
        terminated=no,
        symbols=jnp.full((num_distances, task.horizon + 1), PAD, jnp.int32),
        actions=jnp.full((num_distances, task.horizon), PAD, jnp.int32),
    )


def root(task: Task, original: Original, config: Config) -> Nodes:
    """The start alone: N = 1."""
    state = task.reset(jax.random.key(0))
    symbol = task.symbol(state)
    column = edit_distance.start(original.symbols, config.costs)
    column = edit_distance.append(column, edit_distance.matches(original.symbols, symbol, config.costs), config.costs)
    zero = jnp.zeros((), jnp.result_type(float))
    node = Nodes(
        state=state,
        carry=task.policy.init(),
        column=column,
        smallest=_smallest(column, original, config),
        goal=zero,
        charged=zero,
        log_prob=zero,
        symbols=jnp.full(task.horizon + 1, PAD, jnp.int32).at[0].set(symbol),
        actions=jnp.full(task.horizon, PAD, jnp.int32),
        alive=jnp.bool_(True) if task.constraints is None else ~task.constraints.forbids(symbol),
    )
    return jax.tree.map(lambda x: jnp.asarray(x)[None], node)


def alone(node: Nodes, room: int) -> Nodes:
    """One node in an array with room for more, which are not alive."""
    nodes = jax.tree.map(lambda x: jnp.repeat(x, room, axis=0), node)
    return nodes.replace(alive=nodes.alive & (jnp.arange(room) == 0))


def expand(task: Task, original: Original, config: Config, nodes: Nodes, goal_bound: Float[Array, ""]) -> Children:
    """What may follow each node. P_A is asked once a node."""

    def one(node: Nodes):
        carry, log_probs = task.log_probs(node.carry, node.state)
        charged = node.charged + task.habits(node.state, log_probs, config.habit)
        available = task.available(node.state) & node.alive
        smallest = jnp.full(task.num_actions, node.smallest)
        if knows_next(task):
            symbols = task.env.next_symbols(node.state, task.params)
            smallest = jax.vmap(lambda s: _smallest(_longer(node.column, s, original, config), original, config))(
                symbols
            )
        bound = node.goal + goal_bound + config.lambda_policy * charged
        log_prob = node.log_prob + log_probs
        return Children(
            carry=carry, available=available, charged=charged, log_prob=log_prob, smallest=smallest, bound=bound
        )

    return jax.vmap(one)(nodes)


def step(
    task: Task,
    original: Original,
    config: Config,
    nodes: Nodes,
    children: Children,
    parent: Int[Array, " M"],
    action: Int[Array, " M"],
    alive: Bool[Array, " M"],
    t: Int[Array, ""],
) -> tuple[Nodes, Bool[Array, " M"], Bool[Array, " M"]]:
    """The M children nodes[parent] with these actions, after t actions each; which of them are complete paths, since
    the world ended them or the horizon is there; and which the world ended.
    """

    def one(parent, action, alive):
        node = jax.tree.map(lambda x: x[parent], nodes)
        state, reward, terminated = task.step(jax.random.key(0), node.state, action)
        symbol = task.symbol(state)
        column = _longer(node.column, symbol, original, config)
        complete = alive & (terminated | (t + 1 >= task.horizon))
        child = Nodes(
            state=state,
            carry=jax.tree.map(lambda x: x[parent], children.carry),
            column=column,
            smallest=_smallest(column, original, config),
            goal=node.goal + reward,
            charged=children.charged[parent, action],
            log_prob=children.log_prob[parent, action],
            symbols=node.symbols.at[t + 1].set(symbol),
            actions=node.actions.at[t].set(action),
            alive=alive & ~complete,
        )
        return child, complete, terminated

    longer, complete, terminated = jax.vmap(one)(parent, action, alive)
    return longer, complete, terminated


def record(
    task: Task,
    original: Original,
    config: Config,
    best: Best,
    nodes: Nodes,
    complete: Bool[Array, " N"],
    terminated: Bool[Array, " N"],
) -> Best:
    """The best paths after these, of which those that are complete count."""

    def one(node: Nodes, complete, terminated):
        distance = edit_distance.distance(node.column, original.length, config.costs)
        outcome = task.outcome(node.state, terminated, node.goal)
        met = jnp.bool_(True) if original.goal is None else original.goal(outcome)
        broken = violations(task.constraints, original.kept, node.symbols, node.actions, distance)
        counts = complete & met & (True if broken is None else broken == 0)
        value = node.goal + config.lambda_policy * node.charged
        return jnp.where(counts, value, -jnp.inf), jnp.rint(distance).astype(jnp.int32), outcome.reached

    value, distance, reached = jax.vmap(one)(nodes, complete, terminated)
    each = jnp.where(distance == jnp.arange(len(best.value))[:, None], value, -jnp.inf)  # [E, N]
    first = jnp.argmax(each, axis=1)
    found = Best(
        value=jnp.take_along_axis(each, first[:, None], axis=1)[:, 0],
        goal=nodes.goal[first],
        charged=nodes.charged[first],
        log_prob=nodes.log_prob[first],
        reached=reached[first],
        terminated=terminated[first],
        symbols=nodes.symbols[first],
        actions=nodes.actions[first],
    )
    better = found.value > best.value
    return jax.tree.map(lambda new, old: jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old), found, best)


def dead_ends(nodes: Nodes, children: Children) -> Bool[Array, " N"]:
    """The living nodes from which nothing leads on: complete paths as well."""
    return nodes.alive & ~children.available.any(-1)


def tolerated(value: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """What a bound must exceed to matter: a v, by more than rounding can tell, a millionth of its size."""
    return value + 1e-6 * (1.0 + jnp.where(jnp.isfinite(value), jnp.abs(value), 0.0))


def knows_next(task: Task) -> bool:
    """Whether the world tells the symbols that may follow before a step is taken."""
    return hasattr(task.env, "next_symbols")


def goal_bound(task: Task, config: Config) -> Float[Array, ""]:
    """The most R_goal that may still come, from the world; infinite where it does not say, or where habits may pay."""
    if config.habit != "regret" or not hasattr(task.env, "goal_bound"):
        return jnp.full((), jnp.inf, jnp.result_type(float))
    return jnp.asarray(task.env.goal_bound(task.params), jnp.result_type(float))


def _longer(column, symbol, original: Original, config: Config):
    return edit_distance.append(column, edit_distance.matches(original.symbols, symbol, config.costs), config.costs)


def _smallest(column, original: Original, config: Config) -> Int[Array, ""]:
    smallest, _ = edit_distance.alignment(column, original.symbols, original.length, config.costs)
    return jnp.rint(smallest).astype(jnp.int32)
