"""Successors as a table of all states and actions, for what plans over all of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import struct

from pprjax.errors import UserError
from pprjax.successors import Successors

MAX_NUMBERS = 2**27
"""The most numbers of one table: half a GiB of them."""


@struct.dataclass
class Padded:
    """Where each action leads, as many successors for each as that with the most, K, has."""

    states: Any  # int32[S, A, K]; any where probs is 0
    probs: Any  # float[S, A, K]


def padded(chances: Successors) -> Padded:
    """The same chances; they may be traced.

    Raises:
        ValueError: S·A·K is above 2²⁷.
    """
    (num_states, num_actions), width = chances.shape, max(chances.longest, 1)
    numbers = num_states * num_actions * width
    if numbers > MAX_NUMBERS:
        raise UserError(
            f"task.env: a plan over all states has a table of {num_states:,} states × {num_actions:,} actions × "
            f"{width:,} next states, as many as the step with the most has, which takes {numbers * 8 / 2**30:.1f} GiB; "
            f"expected at most {MAX_NUMBERS * 8 / 2**30:.0f} GiB"
        )
    first = jnp.asarray(chances.first)
    state, action = jnp.arange(num_states)[:, None], jnp.arange(num_actions)
    cell = jnp.minimum(chances.cell(state, action), len(first) - 2)
    begin, end = first[cell], first[cell + 1]
    if chances.rows is not None:
        end = jnp.where(action < jnp.diff(chances.rows)[:, None], end, begin)
    rows = begin[..., None] + jnp.arange(width)
    valid, rows = rows < end[..., None], jnp.minimum(rows, len(chances.states) - 1)
    return Padded(jnp.asarray(chances.states)[rows], jnp.where(valid, jnp.asarray(chances.probs)[rows], 0.0))
