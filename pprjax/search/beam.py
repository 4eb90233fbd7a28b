"""A beam for each number of edits: one pass over the layers of a deterministic world answers every λ_path.

The children of a layer are sorted into strata by m, the fewest edits that a path through them may end with. Each
stratum keeps its best `width` by v; places that a stratum leaves free go to the others, evenly. Where one λ_path is
asked for, half of the places go to the best by R, whatever their stratum. What is dropped leaves its bound, so that the
best path for e edits is proved where no dropped child could have led to a better one. Where a world tells its
`end_action`, each node is also ended.

Where the world tells the symbols that may follow, children are ranked by what their parents promise, and only the
first `breadth` times as many as are kept take a step. These are ranked again, by what they promise themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.ladder import Ladder
from pprjax.reward import closeness
from pprjax.search import nodes as layers
from pprjax.search.nodes import Children, Edges, Nodes, Search, rung_of

CANDIDATES = 2
"""Children of a node that lead to symbols which τ₀ lacks, by v and by promise, for each place of a stratum: no more are
ranked."""

NEAR = 1e6
"""What puts the symbols of τ₀ before all others; in nats, more than any path is charged."""


class Shape(NamedTuple):
    """How much a beam looks at. Static."""

    num_distances: int  # E ≥ 1
    width: int  # nodes that each of the E strata may keep of a layer, at least
    breadth: int = 1  # children that are stepped for each that is kept, where the world tells the symbols that follow
    # of the world's `promise` of a prefix beside v, where nodes are ranked; each has its own order, and all take turns
    weights: tuple[float, ...] = (0.0,)
    thorough: bool = False  # of each node every child is ranked that there may be room for

    @property
    def room(self) -> int:
        """Nodes of a layer."""
        return self.num_distances * self.width

    @property
    def candidates(self) -> int:
        """Children of a node that are ranked by each order, beside those that lead to symbols of τ₀."""
        return self.room if self.thorough else CANDIDATES * self.width


@struct.dataclass
class Beam:
    """What one pass found for an original. E: one more than the most edits that are looked at."""

    best: Ladder
    # float[E], the largest bound of a dropped child whose paths have at least e edits; -inf: none, NaN: a promise or
    # what P_A says is NaN
    dropped: jax.Array
    calls: jax.Array  # int32[], steps of the world that were asked for


@struct.dataclass
class Ranked:
    """M children, and what they are ranked by."""

    value: jax.Array  # float[M], v so far
    promise: jax.Array  # float[M], the world's opinion
    smallest: jax.Array  # [M], m
    bound: jax.Array  # float[M], on v of all that goes on from them
    valid: jax.Array  # bool[M]


def search_beam(search: Search, best: Ladder, shape: Shape) -> Beam:
    """The best path of at most E - 1 edits for each number of edits, of those that a beam meets. Unbatched.

    Args:
        best: what is known before, of E distances.
        shape: how much is looked at.
    """
    dropped = jnp.full(shape.num_distances, -jnp.inf, jnp.result_type(float))
    start = Beam(best=best, dropped=dropped, calls=jnp.int32(0))

    def layer(carried, t):
        nodes, beam = carried
        return _layer(search, nodes, beam, t, shape), None

    nodes = layers.root(search, shape.room)
    (nodes, beam), _ = jax.lax.scan(layer, (nodes, start), jnp.arange(search.task.horizon - 1))
    return _last(search, nodes, beam, shape)


def _layer(search: Search, nodes: Nodes, beam: Beam, t: Int[Array, ""], shape: Shape) -> tuple[Nodes, Beam]:
    """The nodes of the next layer, as many as there is room for, and what is known with them."""
    best, children, calls = _opened(search, nodes, beam, t)
    dropped = _also(beam.dropped, beam.dropped, _told(children))
    if layers.knows_next(search.task):  # what is dropped need not be stepped
        promise = search.next_promise(nodes)
        value = search.value(nodes.goal[:, None], children.r_policy)
        orders = (value, value + promise) if layers.guides(search.task) else (value,)
        edges, left = _foremost(search, best, children, orders, shape.candidates)
        rows = edges.parent, edges.action
        ranked = Ranked(value[rows], promise[rows], children.smallest[rows], children.bound[rows], edges.valid)
        order, kept, lost = _strata(search, best, ranked, shape.weights, shape.breadth * shape.room)
        edges = Edges(parent=edges.parent[order], action=edges.action[order], valid=kept)
        dropped = _also(dropped, jnp.maximum(left, lost), promise)
    else:
        edges = _every(children)
    longer = layers.step(search, nodes, children, edges, t)
    best = layers.record(search, best, longer)
    if len(edges.valid) > shape.room:
        promise, value = search.promise(longer), search.value(longer.goal, longer.r_policy)
        ranked = Ranked(value, promise, longer.smallest, value + jax.vmap(search.to_come)(longer.state), longer.alive)
        order, kept, lost = _strata(search, best, ranked, shape.weights, shape.room)
        longer = replace(jax.tree.map(lambda x: x[order], longer), alive=kept)
        dropped = _also(dropped, lost, promise)
    return longer, Beam(best=best, dropped=dropped, calls=calls + edges.valid.sum())


def _last(search: Search, nodes: Nodes, beam: Beam, shape: Shape) -> Beam:
    """The last layer: every child is a complete path, so all that may matter are looked at, in blocks: at one λ_path
    those that may have the largest R first, for the frontier those of the fewest edits, and of these the best."""
    t = search.task.horizon - 1
    best, children, calls = _opened(search, nodes, beam, t, last=True)
    edges, lost = _foremost(search, best, children, (children.bound,), shape.candidates)
    bound, smallest = (x[edges.parent, edges.action] for x in (children.bound, children.smallest))
    if search.objective.lambda_path is None:
        order = jnp.lexsort((-bound, smallest))
    else:
        order = jnp.argsort(-(bound + closeness(smallest, search.objective.lambda_path)))
    edges, bound, smallest = jax.tree.map(lambda x: x[order], (edges, bound, smallest))

    def left(best: Ladder, i: Int[Array, ""]) -> Bool[Array, " M"]:
        ahead = jnp.arange(len(bound)) >= i * shape.room
        return ahead & edges.valid & search.matters(best.value, bound, smallest)

    def look(carried):
        best, calls, i = carried
        rows = i * shape.room + jnp.arange(shape.room)
        now = replace(jax.tree.map(lambda x: x[rows], edges), valid=left(best, i)[rows])
        best = layers.record(search, best, layers.step(search, nodes, children, now, t))
        return best, calls + now.valid.sum(), i + 1

    start = best, calls, jnp.int32(0)
    best, calls, _ = jax.lax.while_loop(lambda carried: left(carried[0], carried[2]).any(), look, start)
    return Beam(best=best, dropped=_also(beam.dropped, lost, _told(children)), calls=calls)


def _opened(
    search: Search, nodes: Nodes, beam: Beam, t: Any, *, last: bool = False
) -> tuple[Ladder, Children, Int[Array, ""]]:
    """The best paths after those that end in these nodes, the children, and the steps of the world so far.

    Args:
        last: with every action a path is complete.
    """
    children = layers.expand(search, nodes, last=last)
    best = layers.record(search, beam.best, layers.dead_ends(nodes, children))
    if not layers.tells_end(search.task):
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
    nothing = jnp.full(len(best.value), -jnp.inf, children.bound.dtype)
    count = candidates + len(search.original.symbols)
    if count + candidates >= num_actions:
        return _every(children), nothing
    near = jnp.where(children.smallest < children.smallest.max(-1, keepdims=True), NEAR, 0.0)
    value, *guided = orders
    likely, action = jax.lax.top_k(jnp.where(children.available, value + near, -jnp.inf), count)
    least = likely.min(1, keepdims=True)  # as a slice it would make XLA sort the whole alphabet
    for order in guided:  # the best of those that are not among them
        others = children.available & (value + near < least)
        promising, further = jax.lax.top_k(jnp.where(others, order, -jnp.inf), candidates)
        likely, action = jnp.append(likely, promising, axis=1), jnp.append(action, further, axis=1)
    count = action.shape[1]
    parent = jnp.repeat(jnp.arange(size), count)
    edges = Edges(parent=parent, action=action.ravel(), valid=jnp.isfinite(likely).ravel())
    left = children.available.at[parent, edges.action].set(False)
    bound = jnp.max(children.bound, axis=-1, where=left, initial=-jnp.inf)
    smallest = jnp.min(children.smallest, axis=-1, where=left, initial=len(best.value))
    lost = jnp.where(search.matters(best.value, bound, smallest), search.at_rung(bound, smallest), -jnp.inf)
    return edges, nothing.at[rung_of(smallest)].max(lost, mode="drop")


def _every(children: Children) -> Edges:
    size, num_actions = children.available.shape
    parent, action = jnp.divmod(jnp.arange(size * num_actions), num_actions)
    return Edges(parent=parent, action=action, valid=children.available.ravel())


def _told(children: Children) -> Float[Array, "N A"]:
    """Σ log P_A of the children that there are, which is to be a number; 0 of no child."""
    return jnp.where(children.available, children.log_prob, 0.0)


def _also(dropped: Float[Array, " E"], lost: Float[Array, " E"], told: Float[Array, "..."]) -> Float[Array, " E"]:
    """The largest bounds with those of more dropped children; NaN where something of what the world or P_A tells is."""
    return jnp.where(jnp.isnan(told).any(), jnp.nan, jnp.maximum(dropped, lost))


def _strata(
    search: Search, best: Ladder, ranked: Ranked, weights: tuple[float, ...], room: int
) -> tuple[Int[Array, " room"], Bool[Array, " room"], Float[Array, " E"]]:
    """The children that go on, which of these places are filled, and for each e the largest bound of the others of
    m = e.

    The first of each stratum and weight come first, then the second of each, and so on, so that every stratum has as
    many places as any other, and leaves those that it does not need. Where one λ_path is asked for, as many places as
    all strata have together go to those of the largest v + λ_path / (m + 1), whatever their stratum.
    """
    num_distances, size = len(best.value), len(ranked.value)
    hopeful = ranked.valid & search.matters(best.value, ranked.bound, ranked.smallest)
    stratum = jnp.where(hopeful, rung_of(ranked.smallest), num_distances)
    guided = [weight * ranked.promise for weight in weights]
    places = [_places(ranked.value + more, stratum, num_distances) for more in guided]
    if search.objective.lambda_path is not None:
        worth = jnp.where(hopeful, ranked.value + closeness(ranked.smallest, search.objective.lambda_path), -jnp.inf)
        places += [_foremost_places(worth + more, room) // num_distances for more in guided]
    place = jnp.where(hopeful, jnp.stack(places).min(0), size)
    turn = jnp.minimum(place, room) * (num_distances + 1) + stratum
    first, order = jax.lax.top_k(jnp.where(hopeful, -turn.astype(jnp.float32), -jnp.inf), min(room, size))
    kept = jnp.isfinite(first)
    lost = jnp.where(hopeful.at[order].set(False), search.at_rung(ranked.bound, ranked.smallest), -jnp.inf)
    dropped = jnp.full(num_distances + 1, -jnp.inf, lost.dtype).at[stratum].max(lost)[:-1]
    short = room - len(order)
    return jnp.pad(order, (0, short)), jnp.pad(kept, (0, short)), dropped


def _places(value: Float[Array, " M"], stratum: Int[Array, " M"], num_distances: int) -> Int[Array, " M"]:
    """The place of each child in its stratum, by value."""
    by_value = jnp.lexsort((-value, stratum))
    first = jnp.searchsorted(stratum[by_value], jnp.arange(num_distances + 1))
    return jnp.zeros_like(stratum).at[by_value].set(jnp.arange(len(value)) - first[stratum[by_value]])


def _foremost_places(value: Float[Array, " M"], room: int) -> Int[Array, " M"]:
    """The place of each of the first `room` children by value, M of all others: to sort them would take far longer."""
    size = len(value)
    order = jax.lax.top_k(value, min(room, size))[1]
    return jnp.full(size, size).at[order].set(jnp.arange(len(order)))
