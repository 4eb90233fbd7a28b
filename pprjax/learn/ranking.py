"""Which of several sampled paths is better: one that meets the goal, then one that breaks less, then by R."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from pprjax.rollout import Trajectory


def best_first(lanes: Trajectory) -> Int[Array, " b"]:
    """The order of paths with a leading axis: those that meet the goal first, then the fewest violations, then by R."""
    broken = () if lanes.violations is None else (lanes.violations,)
    return jnp.lexsort((-lanes.reward, *broken, ~lanes.met))


def best_of(lanes: Trajectory) -> Trajectory:
    """The best of paths with a leading axis: one that meets the goal before one that does not, then by R.

    With constraints, of the paths that are not feasible the fewest violations come first, so that search nears those
    that are.
    """
    first = best_first(lanes)[0]
    return jax.tree.map(lambda x: x[first], lanes)


def better(one: Trajectory, other: Trajectory) -> Trajectory:
    """The better of two paths; `one` where they are equal."""
    improves = other.reward > one.reward
    if one.violations is not None and other.violations is not None:
        improves = (other.violations < one.violations) | ((other.violations == one.violations) & improves)
    improves = (other.met & ~one.met) | ((other.met == one.met) & improves)
    return jax.tree.map(lambda new, old: jnp.where(improves, new, old), other, one)
