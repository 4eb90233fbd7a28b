"""A judge of whole sequences is asked only where its answer is needed: most prefixes of a search are no end."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

TOGETHER = 128
"""Sequences that are judged side by side: what a judge computes of these stays in a core's cache."""


def asked_probs(
    judge: Any, symbols: Int[Array, " L"], length: Int[Array, ""], asked: Bool[Array, ""]
) -> Float[Array, " C"]:
    """`judge.probs` of a sequence that is asked for, else 0. Under `vmap` only those that are asked for cost time."""
    return _all_asked(judge, symbols[None], length[None], asked[None])[0]


@jax.custom_batching.custom_vmap
def _all_asked(
    judge: Any, symbols: Int[Array, "N L"], length: Int[Array, " N"], asked: Bool[Array, " N"]
) -> Float[Array, "N C"]:
    size = len(asked)
    together = min(size, TOGETHER)
    each = jax.vmap(lambda symbols, length: judge.probs(symbols, length))
    probs = jax.eval_shape(each, symbols, length)
    order, count = jnp.argsort(~asked, stable=True), jnp.sum(asked)

    def judged(carry):
        done, known = carry
        place = done + jnp.arange(together)
        rows = order[place.clip(max=size - 1)]
        return done + together, known.at[jnp.where(place < count, rows, size)].set(
            each(symbols[rows], length[rows]), mode="drop"
        )

    start = jnp.int32(0), jnp.zeros(probs.shape, probs.dtype)
    return jax.lax.while_loop(lambda carry: carry[0] < count, judged, start)[1]


@_all_asked.def_vmap
def _(axis_size: int, in_batched: Any, judge: Any, symbols: Array, length: Array, asked: Array):
    """One batch of all; a judge for each is asked by itself."""
    of_judge, *batched = in_batched
    symbols, length, asked = (
        x if valid else jnp.broadcast_to(x, (axis_size, *x.shape))
        for x, valid in zip((symbols, length, asked), batched, strict=True)
    )
    if any(jax.tree.leaves(of_judge)):
        many = jax.tree.map(
            lambda x, valid: x if valid else jnp.broadcast_to(x, (axis_size, *jnp.shape(x))), judge, of_judge
        )
        return jax.lax.map(lambda row: _all_asked(*row), (many, symbols, length, asked)), True
    merged = [x.reshape(-1, *x.shape[2:]) for x in (symbols, length, asked)]
    probs = _all_asked(judge, *merged)
    return probs.reshape(*asked.shape, -1), True
