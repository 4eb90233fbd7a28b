"""How fast are rollouts (step, agent, edit distance, rewards; no network) beside gymnax's FrozenLake-8x8?

Both run 4,096 lanes of 40 steps of random actions: FrozenLake as gymnax steps it, which begins anew by itself; ours
with P_A, τ₀ and Eq. 5. Steps that happened are counted: on the default map most lanes end before their 40th step, and
what a scan does after a lane's end is no step. So they are counted in a second world as well, in which no lane
ends: from its flag the way leads back to the start.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from gymnax.environments.misc.frozen_lake import FrozenLake
from pprjax_envs import gridworld
from report import beside_floor, finish, median_seconds

from pprjax import Config
from pprjax.paths import PAD
from pprjax.rollout import Behaviour, rollout, trace

LANES, STEPS = 4096, 40
CALLS = 20  # in a row: what each sustains, not what waking its threads costs


def frozen_lake():
    """A jitted run of random actions through `step`, which resets by itself, as gymnax's own rollouts do."""
    env = FrozenLake(map_name="8x8")
    params = env.default_params

    @jax.jit
    def run(key):
        def step(state, step_key):
            key_action, key_step = jax.random.split(step_key)
            actions = jax.random.randint(key_action, (LANES,), 0, env.num_actions)
            keys = jax.random.split(key_step, LANES)
            _, state, reward, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, actions, params)
            return state, reward

        _, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, LANES), params)
        return jax.lax.scan(step, state, jax.random.split(key, STEPS))[1].sum(0)

    return run


def endless(task):
    """The same grid world, but from the flag every action leads back to the start."""
    params = task.params
    next_row = jnp.where(params.terminal[:, None], params.start, params.next_state)
    return task.replace(params=params.replace(next_state=next_row, terminal=jnp.zeros_like(params.terminal)))


def ours(task):
    """A jitted run that gives R and the number of actions of each lane."""
    path = gridworld.bad_paths(gridworld.task().env, 1)
    config = Config(habit="link")

    @jax.jit
    def run(task, key):
        original = trace(task, jnp.asarray(path.symbols[0]), jnp.asarray(path.lengths[0]), key)
        lanes = Behaviour(
            forced=jnp.full((LANES, STEPS), PAD, jnp.int32),
            explore=jnp.ones((LANES, STEPS), bool),
            from_policy=jnp.ones(LANES, bool),
            uniform=jax.random.uniform(key, (STEPS, LANES)).T,
        )
        keys = jax.random.split(key, LANES)
        done = jax.vmap(lambda lane, k: rollout(task, original, lane, config, k))(lanes, keys)
        return done.reward, done.num_actions

    return partial(run, task)


def main() -> None:
    key = jax.random.key(0)
    lake, grid, forever = frozen_lake(), ours(gridworld.task()), ours(endless(gridworld.task()))

    def repeated(run):
        return lambda: [jax.block_until_ready(run(key)) for _ in range(CALLS)]

    seconds = median_seconds(repeated(lake), repeated(grid), repeated(forever), rounds=21)
    happened = [LANES * STEPS, *(int(run(key)[1].sum()) for run in (grid, forever))]
    steps = [CALLS * number / s for number, s in zip(happened, seconds, strict=True)]
    moved = CALLS * LANES * 4 * (STEPS + 1)  # a random number for each step is read, a reward for each lane written
    finish(
        "rollouts",
        {
            "frozen_lake_steps_per_s": steps[0],
            "pprjax_steps_per_s": steps[1],
            "ratio": steps[1] / steps[0],
            "mean_length": happened[1] / LANES,
            "endless_steps_per_s": steps[2],
            "endless_ratio": steps[2] / steps[0],
            "endless_mean_length": happened[2] / LANES,
            **beside_floor(seconds[2], moved),
        },
    )


if __name__ == "__main__":
    main()
