"""A beam for each number of edits: one pass over the layers of a deterministic world answers every λ_path.

The children of a layer are sorted into strata by m, the fewest edits that a path through them may end with. Each
stratum keeps its best `width` by v; places that a stratum leaves free go to the others, evenly. What is dropped leaves
its bound, so that the best path for e edits is proved where no dropped child could have led to a better one.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.ladder import Ladder
from pprjax.search import nodes as layers
from pprjax.search.nodes import Children, Edges, Nodes, Search


@struct.dataclass
class Beam:
    """What one pass found for an original. E: one more than the most edits that are looked at."""

    best: Ladder
    # float[E], the largest bound of a dropped child whose paths have at least e edits; -inf: none, NaN: a promise was
    dropped: jax.Array
    calls: jax.Array  # int32[], steps of the world that were asked for


def search_beam(search: Search, best: Ladder, *, width: int, weight: float) -> Beam:
    """The best path of at most E - 1 edits for each number of edits, of those that a beam meets. Unbatched.

    Args:
        best: what is known before, of E ≥ 1 distances.
        width: nodes that each of the E strata may keep of a layer, at least.
        weight: of the world's `promise` of a prefix, beside v, where nodes are ranked.
    """
    num_distances = len(best.value)
    dropped = jnp.full(num_distances, -jnp.inf, jnp.result_type(float))
    start = Beam(best=best, dropped=dropped, calls=jnp.int32(0))

    def layer(carried, t):
        nodes, beam = carried
        return _layer(search, nodes, beam, t, weight), None

    nodes = layers.root(search, num_distances * width)
    (nodes, beam), _ = jax.lax.scan(layer, (nodes, start), jnp.arange(search.task.horizon - 1))
    return _last(search, nodes, beam)


def _layer(search: Search, nodes: Nodes, beam: Beam, t: Int[Array, ""], weight: float) -> tuple[Nodes, Beam]:
    """The nodes of the next layer, as many as there is room for, and what is known with them."""
    children = layers.expand(search, nodes)
    best = layers.record(search, beam.best, layers.dead_ends(nodes, children))
    room, edges = len(nodes.alive), _every(children)
    if search.knows_next:  # what is dropped need not be stepped
        promise = search.promise(nodes)
        value = search.value(nodes.goal[:, None], children.charged) + weight * promise[:, None]
        smallest, bound = children.smallest.ravel(), children.bound.ravel()
        order, kept, dropped = _strata(search, best, value.ravel(), smallest, bound, edges.there, room)
        edges = Edges(parent=edges.parent[order], action=edges.action[order], there=kept)
        longer = layers.step(search, nodes, children, edges, t)
        best = layers.record(search, best, longer)
    else:
        every = layers.step(search, nodes, children, edges, t)
        best = layers.record(search, best, every)
        value = search.value(every.goal, every.charged)
        promise = search.promise(every)
        ranked = value + weight * promise
        bound = value + search.goal_bound
        order, kept, dropped = _strata(search, best, ranked, every.smallest, bound, every.alive, room)
        longer = jax.tree.map(lambda x: x[order], every)
        longer = replace(longer, alive=kept)
    dropped = jnp.where(jnp.isnan(promise).any(), jnp.nan, jnp.maximum(beam.dropped, dropped))
    return longer, Beam(best=best, dropped=dropped, calls=beam.calls + edges.there.sum())


def _last(search: Search, nodes: Nodes, beam: Beam) -> Beam:
    """The last layer: every child is a complete path, so all that may matter are looked at."""
    children = layers.expand(search, nodes)
    best = layers.record(search, beam.best, layers.dead_ends(nodes, children))
    edges = _every(children)
    hopeful = search.matters(best.value, children.bound, children.smallest).ravel()
    edges = Edges(parent=edges.parent, action=edges.action, there=edges.there & hopeful)
    best = layers.record(search, best, layers.step(search, nodes, children, edges, search.task.horizon - 1))
    return Beam(best=best, dropped=beam.dropped, calls=beam.calls + edges.there.sum())


def _every(children: Children) -> Edges:
    size, num_actions = children.available.shape
    parent, action = jnp.divmod(jnp.arange(size * num_actions), num_actions)
    return Edges(parent=parent, action=action, there=children.available.ravel())


def _strata(
    search: Search,
    best: Ladder,
    value: Float[Array, " M"],
    smallest: Int[Array, " M"],
    bound: Float[Array, " M"],
    there: Bool[Array, " M"],
    room: int,
) -> tuple[Int[Array, " room"], Bool[Array, " room"], Float[Array, " E"]]:
    """The children that go on, which of these places are filled, and for each e the largest bound of the others of
    m = e.

    The first of each stratum by value come first, then the second of each, and so on, so that every stratum has as many
    places as any other, and leaves those that it does not need.
    """
    num_distances = len(best.value)
    hopeful = there & search.matters(best.value, bound, smallest)
    stratum = jnp.where(hopeful, smallest, num_distances)
    by_value = jnp.lexsort((-value, stratum))
    first = jnp.searchsorted(stratum[by_value], jnp.arange(num_distances + 1))
    place = jnp.zeros_like(stratum).at[by_value].set(jnp.arange(len(value)) - first[stratum[by_value]])
    order = jnp.lexsort((stratum, jnp.where(hopeful, place, len(value))))
    kept = hopeful[order] & (jnp.arange(len(order)) < room)
    lost = jnp.where(hopeful[order] & ~kept, bound[order], -jnp.inf)
    dropped = jnp.full(num_distances + 1, -jnp.inf, bound.dtype).at[stratum[order]].max(lost)[:-1]
    short = max(0, room - len(order))
    return jnp.pad(order[:room], (0, short)), jnp.pad(kept[:room], (0, short)), dropped
