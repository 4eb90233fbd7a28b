"""The archive: of all paths that were sampled for an original, the best that differ from each other."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Int

from pprjax import edit_distance
from pprjax.rollout import Trajectory


@struct.dataclass
class Archive:
    """M paths, the best first, each of which meets the goal; any two are at least δ edits apart."""

    paths: Trajectory  # leading axis of M; without what only the learner needs
    filled: jax.Array  # bool[M], whether there is a path in this place
    min_distance: jax.Array  # int32[], δ


def empty(like: Trajectory, size: int, min_distance: Int[Array, ""] | int) -> Archive:
    """Room for `size` paths shaped like `like`, which has no leading axis."""
    paths = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), _slim(like))
    return Archive(paths=paths, filled=jnp.zeros(size, bool), min_distance=jnp.asarray(min_distance, jnp.int32))


def extend(archive: Archive, lanes: Trajectory) -> Archive:
    """The archive after these paths, which have a leading axis. The best of all is kept, and what is less than δ edits
    from it is dropped; then the best of the rest, and so on. Of equally good paths the older stays."""
    pool = jax.tree.map(lambda *parts: jnp.concatenate(parts), archive.paths, _slim(lanes))
    lengths = pool.num_actions + 1

    def pick(alive, _):
        chosen = jnp.argmax(jnp.where(alive, pool.reward, -jnp.inf))
        far = _distances(pool.symbols[chosen], lengths[chosen], pool.symbols, lengths) >= archive.min_distance
        return alive & far, (chosen, alive[chosen])

    alive = jnp.concatenate([archive.filled, lanes.met])
    _, (order, filled) = jax.lax.scan(pick, alive, length=archive.filled.shape[0])
    return replace(archive, paths=jax.tree.map(lambda x: x[order], pool), filled=filled)


def _distances(path, length, paths, lengths) -> Int[Array, " N"]:
    return jax.vmap(lambda other, n: edit_distance.between(path, length, other, n))(paths, lengths)


def _slim(lanes: Trajectory) -> Trajectory:
    return replace(lanes, observations=None, available=None, rows=None, positions=None, rewards=None)
