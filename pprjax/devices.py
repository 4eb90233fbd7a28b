"""All local devices side by side: the same program on each, with its own part of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SHARED, SPLIT = PartitionSpec(), PartitionSpec("batch")


def local_mesh() -> Mesh | None:
    """This process's devices in a row; None where there is only one."""
    devices = jax.local_devices()
    return Mesh(np.array(devices), ("batch",)) if len(devices) > 1 else None


def sharded(function: Callable[[Any, Any], Any], mesh: Mesh | None) -> Callable[[Any, Any], Any]:
    """function(shared, batch) -> batch, called on each device with its part of the batch, an equal share.

    No device waits for another, and each runs the program that one device alone would run on that part.
    """
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=(SHARED, SPLIT), out_specs=SPLIT, check_vma=False)


def put(shared: Any, batch: Any, place: Any) -> tuple[Any, Any]:
    """Both on a device; or, where `place` is a mesh, `shared` on each of its devices and `batch` split among them."""
    if not isinstance(place, Mesh):
        return jax.device_put((shared, batch), place)
    return tuple(jax.device_put(x, NamedSharding(place, s)) for x, s in ((shared, SHARED), (batch, SPLIT)))


def grouped(items: Iterable[tuple[Any, Any]], size: int) -> Iterator[tuple[Any, list[Any]]]:
    """(kind, item), … as (kind, items): `size` of a kind as they come, and at the end those that are left."""
    waiting = defaultdict(list)
    for kind, item in items:
        waiting[kind].append(item)
        if len(waiting[kind]) == size:
            yield kind, waiting.pop(kind)
    yield from waiting.items()
