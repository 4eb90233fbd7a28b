"""Gymnax environments for learners that step on the host: Stable-Baselines3, CleanRL and others of Gymnasium's."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium
import jax
import numpy as np
from gymnax.environments import environment, spaces


def to_gymnasium(env: environment.Environment, params: Any = None, *, seed: int = 0) -> GymnasiumEnv:
    """A gymnax environment, `pprjax.RecourseEnv` among them, as a Gymnasium environment.

    Unlike gymnax's own wrapper it hands out NumPy arrays and floats, and stands still where an episode ends, so that
    the last observation is not lost.

    Args:
        env: of gymnax ≥ 1.0.
        params: of the environment; default its own.
        seed: of the key, until `reset` gets one.

    Raises:
        TypeError: the environment is not gymnax's.
    """
    if not isinstance(env, environment.Environment):
        raise TypeError(f"env: expected a gymnax environment, got {type(env).__name__}")
    return GymnasiumEnv(env, env.default_params if params is None else params, seed)


class GymnasiumEnv(gymnasium.Env[np.ndarray, Any]):
    """One gymnax environment that is stepped from the host. `to_gymnasium` makes it."""

    metadata: ClassVar = {"render_modes": []}

    def __init__(self, env: environment.Environment, params: Any, seed: int):
        self.env, self.params, self.key = env, params, jax.random.key(seed)
        self.action_space = spaces.gymnax_space_to_gym_space(env.action_space(params))
        self.observation_space = spaces.gymnax_space_to_gym_space(env.observation_space(params))
        self.state = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.key = jax.random.key(seed)
        self.key, key = jax.random.split(self.key)
        seen, self.state = _reset(self.env, self.params, key)
        return np.asarray(seen), {}

    def step(self, action: Any):
        if self.state is None:
            raise RuntimeError("step: expected `reset` before the first step of an episode")
        self.key, key = jax.random.split(self.key)
        seen, self.state, reward, terminated, truncated, info = _step(self.env, self.params, key, self.state, action)
        return np.asarray(seen), float(reward), bool(terminated), bool(truncated), jax.tree.map(np.asarray, info)


@partial(jax.jit, static_argnames="env")
def _reset(env: environment.Environment, params: Any, key: jax.Array):
    return env.reset_env(key, params)


@partial(jax.jit, static_argnames="env")
def _step(env: environment.Environment, params: Any, key: jax.Array, state: Any, action: Any):
    seen, state, reward, terminated, info = env.step_env(key, state, action, params)
    return seen, state, reward, terminated, env.is_truncated(state, params) & ~terminated, info
