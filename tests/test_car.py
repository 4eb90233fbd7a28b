"""The bound on how soon a mountain car may arrive, of bench/continuous.py."""

import jax
import jax.numpy as jnp
import numpy as np
from benches import bench
from gymnax.environments.classic_control.mountain_car import MountainCar

car = bench("car")

ENV = MountainCar()
CELLS = (300, 280)


def test_no_drive_arrives_sooner_than_the_bound_says():
    params = ENV.default_params
    table = car.fewest_steps(params, cells=CELLS)

    def bound(state):
        x, v = car.cell_of(state, params, CELLS)
        return table[x, v]

    def drive(key):
        def step(state, key):
            action = jax.random.choice(key, 3, p=jnp.array([0.3, 0.1, 0.6]))
            after, *_, arrived = ENV.step_env(key, state, action, params)[1:4]
            return after, (bound(state), bound(after), arrived)

        place, speed = jax.random.uniform(key, (2,), minval=-1.0)
        state = ENV.reset_env(key, params)[1].replace(position=0.8 * place - 0.35, velocity=0.07 * speed)
        return jax.lax.scan(step, state, jax.random.split(key, 60))[1]

    before, after, arrived = jax.jit(jax.vmap(drive))(jax.random.split(jax.random.key(0), 500))
    assert arrived.any() and (before[arrived] <= 1).all()
    assert (before <= 1 + after).all()  # one step nearer at most
    assert int(bound(ENV.reset_env(jax.random.key(0), params)[1])) > 2 * 15  # at the largest speed it would take 15
    assert np.asarray(table).max() > 40
