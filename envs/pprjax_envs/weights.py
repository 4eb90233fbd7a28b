"""Trained weights, kept between runs in a folder of the user's, under a hash of all that they depend on."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pprjax.errors import UserError
from pprjax.io import cache_folder

FORMAT = 3
"""Part of every hash: raised when networks or training change, so that older weights are left alone."""


def chosen_folder(folder: str | os.PathLike | None) -> Path:
    """The user's folder, or `cache_folder()`, from the root."""
    return Path(cache_folder() if folder is None else folder).expanduser().absolute()


def digest(*parts: Any) -> str:
    """A hash of arrays (dtype, shape and bytes) and of whatever else, by its repr."""
    total = hashlib.sha256(repr(FORMAT).encode())
    for leaf in jax.tree.leaves(parts):
        if isinstance(leaf, np.ndarray | jax.Array):
            array = np.ascontiguousarray(leaf)
            total.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
        else:
            total.update(repr(leaf).encode())
        total.update(b"\0")
    return total.hexdigest()[:24]


def remembered(
    name: str,
    make: Callable[[], Any],
    *,
    like: Callable[[], Any] | None = None,
    folder: str | os.PathLike | None = None,
) -> tuple[Any, bool]:
    """The pytree of arrays that `make()` gives, read back if it was made before under this name.

    Weights that can't be read, or that no longer have the shape of what `make` gives, are made anew. A folder that
    can't be written costs a warning and nothing else.

    Args:
        name: says all that the weights depend on; see `digest`.
        like: a pytree as `make` gives it, where `make` can't be traced for its shapes; default `make`.
        folder: default `cache_folder()`.

    Returns:
        The pytree, and whether it was read back.
    """
    import orbax.checkpoint as ocp  # takes a second to import

    path = chosen_folder(folder) / name
    with ocp.PyTreeCheckpointer() as checkpointer:
        if path.exists():
            try:
                leaves = checkpointer.restore(path)["leaves"]
                return jax.tree.map(jnp.asarray, _like(jax.eval_shape(like or make), leaves)), True
            except Exception as error:
                warnings.warn(f"weights: can't read {path} ({error}); training anew", stacklevel=2)
        made = jax.device_get(make())
        leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(made))}
        try:
            checkpointer.save(path, {"leaves": leaves}, force=True)
        except (OSError, ValueError) as error:
            warnings.warn(f"weights: can't write {path} ({error})", stacklevel=2)
    return jax.tree.map(jnp.asarray, made), False


def _like(shapes: Any, leaves: dict[str, Any]) -> Any:
    """The leaves in the structure of `shapes`."""
    wanted, structure = jax.tree.flatten(shapes)
    arrays = [np.asarray(leaves[str(i)]) for i in range(len(leaves))]
    found, expected = [(a.shape, a.dtype) for a in arrays], [(w.shape, w.dtype) for w in wanted]
    if found != expected:
        raise UserError(f"expected arrays of {expected}, got {found}")
    return jax.tree.unflatten(structure, arrays)
