"""A beam for each number of edits: one pass over the layers of a deterministic world answers every λ_path.

The children of a layer are sorted into strata by m, the fewest edits that a path through them may end with. Each
stratum keeps its best `width` by v; places that a stratum leaves free go to the others, evenly. What is dropped leaves
its bound behind, so that the best path for e edits is proved where no dropped child could have led to a better one.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.config import Config
from pprjax.rollout import Original
from pprjax.search import nodes as search
from pprjax.search.nodes import Best, Children, Nodes
from pprjax.task import Task


@struct.dataclass
class Beam:
    """What one pass found for an original. E: one more than the most edits that are looked at."""

    best: Best
    dropped: jax.Array  # float[E], the largest bound of a dropped child whose paths have at least e edits; -inf: none
    calls: jax.Array  # int32[], steps of the world that were asked for


def search_beam(
    task: Task, original: Original, config: Config, *, num_distances: int, width: int, weight: Float[Array, ""] | float
) -> Beam:
    """The best path of at most E - 1 edits for each number of edits, of those that a beam meets. Unbatched.

    Args:
        task: deterministic.
        num_distances: E ≥ 1.
        width: nodes that each of the E strata may keep of a layer, at least.
        weight: of the world's `promise` of a prefix, beside v, where nodes are ranked; it never scores a path.
    """
    bound = search.goal_bound(task, config)
    layer = partial(_layer, task, original, config, bound, width, weight)
    nodes = search.alone(search.root(task, original, config), num_distances * width)
    start = Beam(
        best=search.nothing(task, num_distances),
        dropped=jnp.full(num_distances, -jnp.inf, jnp.result_type(float)),
        calls=jnp.int32(0),
    )
    (nodes, beam), _ = jax.lax.scan(layer, (nodes, start), jnp.arange(task.horizon - 1))
    return _last(task, original, config, bound, nodes, beam)


def _layer(task, original, config, bound, width, weight, carried, t):
    nodes, beam = carried
    children = search.expand(task, original, config, nodes, bound)
    ends = search.dead_ends(nodes, children)
    best = search.record(task, original, config, beam.best, nodes, ends, jnp.zeros_like(ends))
    if search.knows_next(task):
        kept, dropped = _choose(config, best, nodes, children, _promise(task, nodes, weight)[:, None], width)
        longer, complete, terminated = search.step(task, original, config, nodes, children, *kept, t)
        calls = kept[2].sum()
        best = search.record(task, original, config, best, longer, complete, terminated)
    else:
        every = _every(children)
        longer, complete, terminated = search.step(task, original, config, nodes, children, *every, t)
        calls = every[2].sum()
        best = search.record(task, original, config, best, longer, complete, terminated)
        longer, dropped = _select(task, config, best, longer, bound, width, weight, len(nodes.alive))
    beam = Beam(best=best, dropped=jnp.maximum(beam.dropped, dropped), calls=beam.calls + calls)
    return (longer, beam), None


def _last(task, original, config, bound, nodes: Nodes, beam: Beam) -> Beam:
    """The last layer: every child is a complete path, so all of them are looked at."""
    children = search.expand(task, original, config, nodes, bound)
    ends = search.dead_ends(nodes, children)
    best = search.record(task, original, config, beam.best, nodes, ends, jnp.zeros_like(ends))
    parent, action, alive = _every(children)
    least = best.at_most[jnp.minimum(children.smallest, len(best.value) - 1)]
    hopeful = children.bound > search.tolerated(least)
    alive &= (hopeful & (children.smallest < len(best.value))).ravel()
    longer, complete, terminated = search.step(
        task, original, config, nodes, children, parent, action, alive, jnp.int32(task.horizon - 1)
    )
    best = search.record(task, original, config, best, longer, complete, terminated)
    return Beam(best=best, dropped=beam.dropped, calls=beam.calls + alive.sum())


def _every(children: Children) -> tuple[Int[Array, " NA"], Int[Array, " NA"], Bool[Array, " NA"]]:
    size, num_actions = children.available.shape
    parent, action = jnp.divmod(jnp.arange(size * num_actions), num_actions)
    return parent, action, children.available.ravel()


def _choose(config: Config, best: Best, nodes: Nodes, children: Children, promise: Float[Array, "N 1"], width: int):
    """Which children are stepped: (parent, action, alive) of as many as there are nodes; and the bounds of the others.

    Their symbols are known, so that m is; what the step itself pays is not.
    """
    parent, action, there = _every(children)
    value = (nodes.goal[:, None] + config.lambda_policy * children.charged + promise).ravel()
    order, kept, dropped = _strata(best, value, children.smallest.ravel(), children.bound.ravel(), there, width)
    order = order[: len(nodes.alive)]
    return (parent[order], action[order], kept[order]), dropped


def _select(task, config: Config, best: Best, longer: Nodes, bound, width: int, weight, room: int):
    """The children, all of them stepped, that go on; and the bounds of the others."""
    value = longer.goal + config.lambda_policy * longer.charged
    ranked = value + _promise(task, longer, weight)
    order, kept, dropped = _strata(best, ranked, longer.smallest, value + bound, longer.alive, width)
    order = order[:room]
    chosen = jax.tree.map(lambda x: x[order], longer)
    return chosen.replace(alive=kept[order]), dropped


def _strata(
    best: Best,
    value: Float[Array, " M"],
    smallest: Int[Array, " M"],
    bound: Float[Array, " M"],
    there: Bool[Array, " M"],
    width: int,
) -> tuple[Int[Array, " M"], Bool[Array, " M"], Float[Array, " E"]]:
    """The children in the order in which they are kept, which of them are, and for each e the largest bound of those of
    m = e that are not.

    A child that can't lead to a better path than the best of at most m edits is no loss: the frontier needs none.
    """
    num_distances = len(best.value)
    stratum = jnp.minimum(smallest, num_distances)
    hopeful = there & (stratum < num_distances)
    hopeful &= bound > search.tolerated(best.at_most[jnp.minimum(stratum, num_distances - 1)])
    stratum = jnp.where(hopeful, stratum, num_distances)
    by_value = jnp.lexsort((-value, stratum))
    first = jnp.searchsorted(stratum[by_value], jnp.arange(num_distances + 1))
    place = jnp.zeros_like(stratum).at[by_value].set(jnp.arange(len(value)) - first[stratum[by_value]])
    order = jnp.lexsort((stratum, jnp.where(hopeful, place, len(value))))  # the first of each, then the second, …
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(len(order)))
    kept = hopeful & (rank < num_distances * width)
    lost = jnp.where(hopeful & ~kept, bound, -jnp.inf)
    dropped = jnp.full(num_distances + 1, -jnp.inf, bound.dtype).at[stratum].max(lost)[:-1]
    return order, kept, dropped


def _promise(task: Task, nodes: Nodes, weight) -> Float[Array, " N"]:
    if not hasattr(task.env, "promise"):
        return jnp.zeros_like(nodes.goal)
    return weight * jax.vmap(lambda state: task.env.promise(state, task.params))(nodes.state)
