"""Trajectories made by hand."""

import jax.numpy as jnp
import numpy as np

from pprjax.paths import PAD
from pprjax.rollout import Trajectory


def trajectories(**fields):
    """Paths with these fields, of which `num_actions` must be one; all others are 0, and what is not taken PAD."""
    lengths = np.asarray(fields["num_actions"])
    k, steps = len(lengths), np.asarray(fields["symbols"]).shape[1] - 1
    zeros, taken = jnp.zeros(k), np.arange(steps) < lengths[:, None]
    blank = dict(
        actions=np.where(taken, 0, PAD),
        observations=np.zeros((k, steps + 1), int),
        available=np.ones((k, steps + 1, 1), bool),
        rows=np.zeros((k, steps), np.int32),
        positions=np.zeros((k, steps + 1), int),
        rewards=np.zeros((k, steps), np.float32),
        terminated=zeros > 0,
        reached=zeros > 0,
        met=zeros > 0,
        r_goal=zeros,
        r_policy=zeros,
        log_prob=zeros,
        distance=zeros,
        reward=zeros,
    )
    return Trajectory(**{name: jnp.asarray(value) for name, value in (blank | fields).items()})
