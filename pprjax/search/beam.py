"""A beam for each number of edits: one pass over the layers of a deterministic world answers every λ_path.

The children of a layer are sorted into strata by m, the fewest edits that a path through them may end with. Each
stratum keeps its best `width` by v; places that a stratum leaves free go to the others, evenly. What is dropped leaves
its bound, so that the best path for e edits is proved where no dropped child could have led to a better one. Where a
world tells its `end_action`, each node is also ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax import ladder
from pprjax.ladder import Ladder
from pprjax.search import nodes as layers
from pprjax.search.nodes import Children, Edges, Nodes, Search

CANDIDATES = 2
"""Children of a node that lead to symbols which τ₀ lacks, by v and by promise, for each place of a stratum: no more are
ranked."""

NEAR = 1e6
"""What puts the symbols of τ₀ before all others; in nats, more than any path is charged."""


@struct.dataclass
class Beam:
    """What one pass found for an original. E: one more than the most edits that are looked at."""

    best: Ladder
    # float[E], the largest bound of a dropped child whose paths have at least e edits; -inf: none, NaN: a promise was
    dropped: jax.Array
    calls: jax.Array  # int32[], steps of the world that were asked for


def search_beam(search: Search, *, num_distances: int, width: int, weight: float) -> Beam:
    """The best path of at most E - 1 edits for each number of edits, of those that a beam meets. Unbatched.

    Args:
        num_distances: E ≥ 1.
        width: nodes that each of the E strata may keep of a layer, at least.
        weight: of the world's `promise` of a prefix, beside v, where nodes are ranked.
    """
    start = Beam(
        best=ladder.empty(search.task, num_distances),
        dropped=jnp.full(num_distances, -jnp.inf, jnp.result_type(float)),
        calls=jnp.int32(0),
    )

    def layer(carried, t):
        nodes, beam = carried
        return _layer(search, nodes, beam, t, weight, CANDIDATES * width), None

    nodes = layers.root(search, num_distances * width)
    (nodes, beam), _ = jax.lax.scan(layer, (nodes, start), jnp.arange(search.task.horizon - 1))
    return _last(search, nodes, beam, CANDIDATES * width)


def _layer(
    search: Search, nodes: Nodes, beam: Beam, t: Int[Array, ""], weight: float, candidates: int
) -> tuple[Nodes, Beam]:
    """The nodes of the next layer, as many as there is room for, and what is known with them."""
    best, children, calls = _opened(search, nodes, beam, t)
    room = len(nodes.alive)

    if search.knows_next:  # what is dropped need not be stepped
        promise = search.next_promise(nodes)
        value = search.value(nodes.goal[:, None], children.charged)
        orders = (value, value + weight * promise) if search.guides else (value,)
        edges, lost = _foremost(search, best, children, orders, candidates)
        at = edges.parent, edges.action
        smallest, bound, ranked = children.smallest[at], children.bound[at], tuple(x[at] for x in orders)
        order, kept, dropped = _strata(search, best, ranked, smallest, bound, edges.there, room)
        dropped = jnp.maximum(dropped, lost)
        edges = Edges(parent=edges.parent[order], action=edges.action[order], there=kept)
        longer = layers.step(search, nodes, children, edges, t)
        best = layers.record(search, best, longer)
    else:
        edges = _every(children)
        every = layers.step(search, nodes, children, edges, t)
        best = layers.record(search, best, every)
        value = search.value(every.goal, every.charged)
        promise = search.promise(every)
        orders = (value, value + weight * promise) if search.guides else (value,)
        bound = value + search.goal_bound
        order, kept, dropped = _strata(search, best, orders, every.smallest, bound, every.alive, room)
        longer = jax.tree.map(lambda x: x[order], every)
        longer = replace(longer, alive=kept)
    dropped = jnp.where(jnp.isnan(promise).any(), jnp.nan, jnp.maximum(beam.dropped, dropped))
    return longer, Beam(best=best, dropped=dropped, calls=calls + edges.there.sum())


def _last(search: Search, nodes: Nodes, beam: Beam, candidates: int) -> Beam:
    """The last layer: every child is a complete path, so all that may matter are looked at."""
    t = search.task.horizon - 1
    best, children, calls = _opened(search, nodes, beam, t)
    edges, lost = _foremost(search, best, children, (children.bound,), candidates)
    at = edges.parent, edges.action
    there = edges.there & search.matters(best.value, children.bound[at], children.smallest[at])
    best = layers.record(search, best, layers.step(search, nodes, children, replace(edges, there=there), t))
    return Beam(best=best, dropped=jnp.maximum(beam.dropped, lost), calls=calls + there.sum())


def _opened(search: Search, nodes: Nodes, beam: Beam, t: Any) -> tuple[Ladder, Children, Int[Array, ""]]:
    """The best paths after those that end in these nodes, the children, and the steps of the world so far."""
    children = layers.expand(search, nodes)
    best = layers.record(search, beam.best, layers.dead_ends(nodes, children))
    if not search.tells_end:
        return best, children, beam.calls
    ends, children = layers.ended(search, nodes, children, t)
    return layers.record(search, best, ends), children, beam.calls + ends.complete.sum()


def _foremost(
    search: Search, best: Ladder, children: Children, orders: tuple[Float[Array, "N A"], ...], candidates: int
) -> tuple[Edges, Float[Array, " E"]]:
    """The children that may be kept: of a large alphabet those with a symbol of τ₀ and the best others of each node.
    And the bounds of the rest, as `_strata` has them.

    The others of a node are of one stratum.

    Args:
        orders: what ranks them: v, and, where the world guides, v and its promise together.
        candidates: others of a node, by each order.
    """
    size, num_actions = children.available.shape
    count = candidates + len(search.original.symbols)
    if count + candidates >= num_actions:
        return _every(children), jnp.full_like(best.value, -jnp.inf)
    near = jnp.where(children.smallest < children.smallest.max(-1, keepdims=True), NEAR, 0.0)
    value, *guided = orders
    likely, action = jax.lax.top_k(jnp.where(children.available, value + near, -jnp.inf), count)
    for order in guided:  # the best of those that are not among them
        others = children.available & (value + near < likely[:, count - 1 : count])
        promising, further = jax.lax.top_k(jnp.where(others, order, -jnp.inf), candidates)
        likely, action = jnp.append(likely, promising, axis=1), jnp.append(action, further, axis=1)
    count = action.shape[1]
    parent = jnp.repeat(jnp.arange(size), count)
    edges = Edges(parent=parent, action=action.ravel(), there=jnp.isfinite(likely).ravel())
    left = children.available.at[parent, edges.action].set(False)
    bound = jnp.max(children.bound, axis=-1, where=left, initial=-jnp.inf)
    smallest = jnp.min(children.smallest, axis=-1, where=left, initial=len(best.value))
    lost = jnp.where(search.matters(best.value, bound, smallest), bound, -jnp.inf)
    return edges, jnp.full_like(best.value, -jnp.inf).at[smallest].max(lost, mode="drop")


def _every(children: Children) -> Edges:
    size, num_actions = children.available.shape
    parent, action = jnp.divmod(jnp.arange(size * num_actions), num_actions)
    return Edges(parent=parent, action=action, there=children.available.ravel())


def _strata(
    search: Search,
    best: Ladder,
    orders: tuple[Float[Array, " M"], ...],
    smallest: Int[Array, " M"],
    bound: Float[Array, " M"],
    there: Bool[Array, " M"],
    room: int,
) -> tuple[Int[Array, " room"], Bool[Array, " room"], Float[Array, " E"]]:
    """The children that go on, which of these places are filled, and for each e the largest bound of the others of
    m = e.

    The first of each stratum come first, then the second of each, and so on, so that every stratum has as many places
    as any other, and leaves those that it does not need. First is who is first by any of the orders.
    """
    num_distances = len(best.value)
    hopeful = there & search.matters(best.value, bound, smallest)
    stratum = jnp.where(hopeful, smallest, num_distances)
    place = jnp.stack([_places(stratum, order, num_distances) for order in orders]).min(0)
    turn = jnp.minimum(place, room) * (num_distances + 1) + stratum
    first_turn, order = jax.lax.top_k(jnp.where(hopeful, -turn.astype(jnp.float32), -jnp.inf), min(room, len(bound)))
    kept = jnp.isfinite(first_turn)
    lost = jnp.where(hopeful.at[order].set(False), bound, -jnp.inf)
    dropped = jnp.full(num_distances + 1, -jnp.inf, bound.dtype).at[stratum].max(lost)[:-1]
    short = room - len(order)
    return jnp.pad(order, (0, short)), jnp.pad(kept, (0, short)), dropped


def _places(stratum: Int[Array, " M"], value: Float[Array, " M"], num_distances: int) -> Int[Array, " M"]:
    """The place of each child among those of its stratum, the largest value first."""
    by_value = jnp.lexsort((-value, stratum))
    first = jnp.searchsorted(stratum[by_value], jnp.arange(num_distances + 1))
    return jnp.zeros_like(stratum).at[by_value].set(jnp.arange(len(value)) - first[stratum[by_value]])
