"""The dynamic programme over edit budgets: the best path of at most e edits, for every e at once.

Its states are pairs of a node of the unrolled world and a position in τ₀, with the edits that are left: the product of
the world with the Levenshtein automaton of τ₀ (Barrett, Jacob and Marathe, SIAM J. Comput. 30(3), 2000). Values are
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from pprjax import devices, limits
from pprjax.certify.edits import WholeCosts
from pprjax.certify.problem import Block
from pprjax.certify.unrolled import Unrolled, Weights
from pprjax.paths import PAD
from pprjax.reward import closeness


@struct.dataclass
class Pruned:
    """What is left of the unrolled world for one original, W' nodes a layer; on the host, or traced."""

    symbol: np.ndarray | jax.Array  # int32[T + 1, W']
    next_state: np.ndarray | jax.Array  # int32[T + 1, W', A], W' where there is none
    edges: np.ndarray | jax.Array  # float32[T + 1, W', A], r + λ_policy·h
    ending: np.ndarray | jax.Array  # float32[T + 1, W'], 0 where a path may end, else -inf
    last: np.ndarray | jax.Array  # int32[], the last layer that is looked at


def prune(
    unrolled: Unrolled,
    ending: Float[np.ndarray, "layers W"],
    alive: Bool[np.ndarray, "layers W"],
    weights: Weights,
) -> Pruned:
    """The nodes that are alive, and what leads from one to another; the weights are those of one original."""
    width = min(limits.size_of(int(alive.sum(1).max())), alive.shape[1])
    kept = np.argsort(~alive, axis=1, kind="stable")[:, :width]  # the living first, in their order
    layers = np.arange(len(kept))[:, None]
    valid = alive[layers, kept]
    rank = np.full((len(kept) + 1, alive.shape[1] + 1), width, np.int32)  # node -> its place among the kept
    rank[:-1, :-1] = np.where(alive, np.cumsum(alive, 1) - 1, width)
    rows, tables = unrolled.row[layers, kept], unrolled.tables
    return Pruned(
        symbol=tables.symbol[rows],
        next_state=np.where(valid[..., None], rank[layers[..., None] + 1, unrolled.next_state[layers, kept]], width),
        edges=(tables.reward[rows] + weights.charges(rows.reshape(1, -1)).reshape(*rows.shape, -1)).astype(np.float32),
        ending=np.where(valid, ending[layers, kept], -np.inf).astype(np.float32),
        last=np.asarray(np.flatnonzero(valid[:, 0]).max(initial=0), np.int32),
    )


Kind = tuple[int, int, int]
"""What problems must share to be solved by one program, side by side: budgets, nodes a layer, and bytes."""


def pose(
    pruned: Pruned, block: Block, b: int, largest: int
) -> tuple[Kind, tuple[Pruned, Int[np.ndarray, " N"], np.int32]]:
    """Original b of the block with budgets of 0 to at least `largest` edits: its kind, and the first inputs of
    `best_budget` and `every_budget`.

    τ₀ comes with its padding in front, so that every original ends at N, and with the position after its first symbol.
    The start is that symbol, and to match it is best: d(s·x, s·y) = d(x, y). Layers that no path of so few edits
    reaches are not looked at.

    Raises:
        TooLargeError: its values take more than MAX_BYTES.
    """
    length = int(block.lengths[b])
    symbols = block.symbols[b, : limits.size_of(length)]
    pruned = replace(pruned, last=np.minimum(pruned.last, np.int32(length - 1 + largest)))
    budgets = limits.size_of(max(largest + 1, 16), finely=True)
    num_bytes = 4 * pruned.symbol.size * (len(symbols) + 1) * budgets
    if num_bytes > limits.MAX_BYTES:
        raise limits.TooLargeError(
            f"task: the certificate of an original of {length} symbols would need {num_bytes / 2**30:.1f} GiB, more "
            f"than {limits.MAX_BYTES / 2**30:.1f}: {pruned.symbol.shape[1]} nodes a layer, {budgets} edit budgets"
        )
    padding = len(symbols) - length
    return (budgets, pruned.symbol.shape[1], num_bytes), (pruned, np.roll(symbols, padding), np.int32(padding + 1))


def on_devices(
    function: Callable[..., Any], problems: Iterable[tuple[Kind, tuple[int, tuple]]], costs: WholeCosts
) -> list[tuple[int, Any]]:
    """`best_budget` or `every_budget` of problems (kind, (whose, inputs)), as (whose, result) in any order.

    One a device, of one kind side by side.
    """
    mesh = devices.local_mesh()
    width = 1 if mesh is None else mesh.size
    index, found, num_bytes = [], [], 0
    for (budgets, _, needs), group in devices.grouped(problems, width):
        if num_bytes + needs > limits.MAX_BYTES:  # they are dispatched without waiting, and run side by side
            jax.block_until_ready(found)
            num_bytes = 0
        num_bytes += needs
        numbers, inputs = zip(*group, strict=True)
        index.append(numbers)
        if mesh is None:
            found.append(function(*inputs[0], budgets=budgets, costs=costs))
        else:
            filled = [inputs[i % len(inputs)] for i in range(width)]
            batch = jax.tree.map(lambda *parts: np.stack(parts), *filled)
            found.append(_sharded(batch, function=function, mesh=mesh, budgets=budgets, costs=costs))
    found = jax.device_get(found)
    if mesh is None:
        return [(numbers[0], result) for numbers, result in zip(index, found, strict=True)]
    return [
        (b, jax.tree.map(lambda x, place=place: x[place], result))
        for numbers, result in zip(index, found, strict=True)
        for place, b in enumerate(numbers)
    ]


@partial(jax.jit, static_argnames=("function", "mesh", "budgets", "costs"))
def _sharded(batch: tuple, *, function: Callable[..., Any], mesh: Mesh, budgets: int, costs: WholeCosts) -> Any:
    """The function of one problem a device."""

    def own(_, part):
        found = function(*jax.tree.map(lambda x: x[0], part), budgets=budgets, costs=costs)
        return jax.tree.map(lambda x: x[None], found)

    return devices.sharded(own, mesh)((), batch)


@partial(jax.jit, static_argnames=("budgets", "costs"))
def best_budget(
    pruned: Pruned,
    original: Int[Array, " N"],
    first: Int[Array, ""],
    lambda_path: Float[Array, ""],
    largest: Int[Array, ""],
    *,
    budgets: int,
    costs: WholeCosts,
) -> tuple[Float[Array, ""], Int[Array, " T"]]:
    """max F(e) + λ_path / (e + 1) over e < budgets, e ≤ largest, in the pruned world, and the actions for it."""
    value = all_values(pruned, original, budgets=budgets, costs=costs)
    budget = jnp.arange(budgets)
    by_budget = jnp.where(budget <= largest, value[0, 0, first] + closeness(budget, lambda_path), -jnp.inf)
    start = jnp.argmax(by_budget).astype(jnp.int32)
    return by_budget[start], _actions(pruned, original, value, first, start, costs)


@partial(jax.jit, static_argnames=("budgets", "costs"))
def every_budget(
    pruned: Pruned, original: Int[Array, " N"], first: Int[Array, ""], *, budgets: int, costs: WholeCosts
) -> tuple[Float[Array, " E"], Int[Array, "E T"]]:
    """F(e), the best R_goal + λ_policy·R_policy of at most e edits, for e = 0 … budgets - 1, and the actions for each.

    F(e) is -inf, and its actions are all PAD, where no path is within e edits.
    """
    value = all_values(pruned, original, budgets=budgets, costs=costs)
    budget = jnp.arange(budgets, dtype=jnp.int32)
    return value[0, 0, first], jax.vmap(lambda e: _actions(pruned, original, value, first, e, costs))(budget)


@partial(jax.jit, static_argnames=("budgets", "costs"))
def all_values(
    pruned: Pruned, original: Int[Array, " N"], *, budgets: int, costs: WholeCosts
) -> Float[Array, "layers W positions E"]:
    """G_t[w, i, e]: the best to come from node w of layer t with i symbols of τ₀ read and at most e edits left.

    G_t[w, i, e] = max of  max_a r(w, a) + H_{t+1}[w'(w, a), i, e]
                           G_t[w, i + 1, e - w_del]                          drop a symbol of τ₀
                           0, if a path may end in w and i = N
    H_t[w, i, e] = max of  G_t[w, i + 1, e - w_sub·(symbol(w) ≠ τ₀[i])]      read one for this node's symbol
                           G_t[w, i, e - w_ins]                              the node's symbol is inserted
    """
    num_nodes, length = pruned.symbol.shape[1], original.shape[0]

    def shifted(x, positions: int, edits: int):
        """x[:, i + positions, e - edits], -inf outside."""
        positions, edits = min(positions, length + 1), min(edits, budgets)
        inside = x[:, positions:, : budgets - edits]
        return jax.lax.pad(inside, -jnp.inf, ((0, 0, 0), (0, positions, 0), (edits, 0, 0)))

    def layer(k, carried):
        arriving, values = carried
        t = pruned.last - k
        symbol, next_state, edges, ending = pruned.symbol[t], pruned.next_state[t], pruned.edges[t], pruned.ending[t]
        value = jnp.full((num_nodes, length + 1, budgets), -jnp.inf, edges.dtype).at[:, length].set(ending[:, None])
        for a in range(edges.shape[-1]):
            value = jnp.maximum(value, edges[:, a, None, None] + arriving[next_state[:, a]])
        drops = 1  # after k rounds up to 4^k - 1 symbols are dropped
        while drops * costs.delete < budgets and drops <= length:
            value = jax.lax.optimization_barrier(value)  # one kernel a round: fused, each would redo those before
            more = [shifted(value, n * drops, n * drops * costs.delete) for n in (1, 2, 3)]
            value = reduce(jnp.maximum, more, value)
            drops *= 4
        value = jax.lax.optimization_barrier(value)
        matches = (symbol[:, None] == jnp.append(original, PAD))[..., None]
        read = jnp.where(matches, shifted(value, 1, 0), shifted(value, 1, costs.substitute))
        arriving = jnp.maximum(read, shifted(value, 0, costs.insert))
        arriving = jnp.pad(arriving, ((0, 1), (0, 0), (0, 0)), constant_values=-jnp.inf)
        return arriving, values.at[t].set(value)

    nowhere = jnp.full((num_nodes + 1, length + 1, budgets), -jnp.inf, pruned.edges.dtype)
    values = jnp.full((pruned.symbol.shape[0], num_nodes, length + 1, budgets), -jnp.inf, pruned.edges.dtype)
    return jax.lax.fori_loop(0, pruned.last + 1, layer, (nowhere, values))[1]


def _actions(
    pruned: Pruned,
    original: Int[Array, " N"],
    value: Float[Array, "layers W positions E"],
    first: Int[Array, ""],
    budget: Int[Array, ""],
    costs: WholeCosts,
) -> Int[Array, " T"]:
    """The actions that attain value[0, 0, first, budget]: one of the options of `all_values` after the other."""
    horizon = pruned.symbol.shape[0] - 1
    num_nodes, length, num_actions = pruned.symbol.shape[1], original.shape[0], pruned.edges.shape[-1]

    def look(t, node, i, e):
        valid = (node < num_nodes) & (i <= length) & (e >= 0) & (t <= horizon)
        return jnp.where(valid, value[t, node, i, e], -jnp.inf)  # an index out of bounds is clamped

    def step(lane):
        t, node, i, e, actions, _ = lane
        next_state = pruned.next_state[t, node]
        reads = jnp.append(original, PAD)[i] == pruned.symbol[jnp.minimum(t + 1, horizon), next_state]
        after_read = e - jnp.where(reads, 0, costs.substitute)
        options = jnp.concatenate(
            [
                jnp.where(i == length, pruned.ending[t, node], -jnp.inf)[None],
                look(t, node, i + 1, e - costs.delete)[None],
                pruned.edges[t, node] + look(t + 1, next_state, i + 1, after_read),
                pruned.edges[t, node] + look(t + 1, next_state, i, e - costs.insert),
            ]
        )
        choice = jnp.argmax(options)
        action, inserts = (choice - 2) % num_actions, choice >= 2 + num_actions
        acts = choice >= 2
        ended = (choice == 0) | (options[choice] == -jnp.inf)
        edits = jnp.where(inserts, costs.insert, e - after_read[action])
        moved = (
            jnp.where(acts, t + 1, t),
            jnp.where(acts, next_state[action], node),
            jnp.where(inserts, i, i + 1),
            e - jnp.where(acts, edits, costs.delete),
            actions.at[jnp.where(acts & ~ended, t, horizon)].set(action.astype(jnp.int32), mode="drop"),
            ended,
        )
        return moved

    zero = jnp.int32(0)
    lane = (zero, zero, first, budget, jnp.full(horizon, PAD, jnp.int32), jnp.bool_(False))
    return jax.lax.while_loop(lambda lane: ~lane[-1], step, lane)[4]
