"""When an original's training ends before its last iteration."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

LOOKS = 60
"""How often in all of a training it is looked whether it may end; each look costs a wait for the device."""

WITHIN = 1e-6
"""A share of a certified R by which the best path may lie below it: float32 tells no more."""


@dataclasses.dataclass(frozen=True)
class Stop:
    """What ends the training of N originals early; by default nothing does."""

    patience: int | None = None  # iterations in which the best path does not change
    bound: Float[np.ndarray, " N"] | None = None  # R that no path exceeds

    @property
    def never(self) -> bool:
        return self.patience is None and self.bound is None

    def of(self, piece: Any) -> Stop:
        """The same for some of the originals."""
        return self if self.bound is None else dataclasses.replace(self, bound=self.bound[piece])

    def reached(self, curve: Float[np.ndarray, "N n"], met: Bool[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """Whose training may end after n iterations.

        Args:
            curve: R of the best path after each of them.
            met: whether the best path meets the goal.
        """
        size = len(curve)
        ends = np.zeros(size, bool)
        if self.patience is not None:
            moved = np.append(np.ones((size, 1), bool), curve[:, 1:] != curve[:, :-1], axis=1)
            ends |= np.argmax(moved[:, ::-1], axis=1) >= self.patience
        if self.bound is not None:
            ends |= met & (curve[:, -1] >= self.bound - WITHIN * np.abs(self.bound))
        return ends


def kept_where(ended: Bool[np.ndarray, " N"], old: Any, new: Any) -> Any:
    """`old` of the originals whose training has ended, `new` of the others: pytrees with a leading axis of N."""
    if not ended.any():
        return new
    return _kept_where(jnp.asarray(ended), old, new)


@jax.jit
def _kept_where(ended, old, new):
    return jax.tree.map(lambda x, y: jnp.where(ended.reshape(-1, *[1] * (y.ndim - 1)), x, y), old, new)
