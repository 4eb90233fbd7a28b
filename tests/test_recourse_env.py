"""RecourseEnv: whatever a learner does in it, its return is R, as printed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import edit
from ring_road import CONFIG, NEXT_STATE, ORIGINALS, PROBS, REWARD, ring

import pprjax

LANES = 64
ONE = pprjax.Paths.from_lists(ORIGINALS[:1])


def test_the_return_is_r_less_the_penalty():
    task = ring()
    env = pprjax.RecourseEnv(task, ONE, CONFIG, penalty=50.0)
    params = env.default_params

    @jax.jit
    @jax.vmap
    def episode(key):
        key_reset, key = jax.random.split(key)

        def step(state, t):
            action = jax.random.randint(jax.random.fold_in(key, t), (), 0, env.num_actions)
            over = state.over
            seen, state, paid, ended, info = env.step_env(key, state, action, params)
            return state, (seen, jnp.where(over, 0.0, paid), jnp.where(over, -1, info["action"]), ended, info["met"])

        return jax.lax.scan(step, env.reset_env(key_reset, params)[1], jnp.arange(task.horizon))[1]

    seen, paid, actions, ended, met = map(np.asarray, episode(jax.random.split(jax.random.key(0), LANES)))
    assert seen.shape == (LANES, task.horizon, *env.observation_space(params).shape)
    assert ended[:, -1].all()
    met_ones = 0
    for lane in range(LANES):
        rows, path, worth = 0, [0], 0.0
        for a in actions[lane][actions[lane] >= 0]:
            usable = NEXT_STATE[rows] >= 0
            assert usable[a]
            habit = np.log(PROBS[rows, a]) - np.log(PROBS[rows][usable].max())
            worth += REWARD[rows, a] + CONFIG.lambda_policy * habit
            rows = NEXT_STATE[rows, a]
            path.append(int(rows))
        worth += CONFIG.lambda_path / (1 + edit(ORIGINALS[0], path, {})) - 50 * (rows != 6)
        np.testing.assert_allclose(paid[lane].sum(), worth, rtol=1e-5, atol=1e-5)
        assert met[lane, len(path) - 2] == (rows == 6)
        met_ones += rows == 6
    assert 0 < met_ones < LANES


def test_it_is_stepped_as_gymnax_steps():
    """And begins anew by itself."""
    env = pprjax.RecourseEnv(ring(), ONE, CONFIG)
    seen, state = env.reset(jax.random.key(0))
    first = seen
    for t in range(7):
        assert state.time == t
        seen, state, _, terminated, _, _ = env.step(jax.random.key(0), state, jnp.int32(0))
    assert terminated
    np.testing.assert_array_equal(seen, first)


@pytest.mark.parametrize(
    ("task", "original", "message"),
    [
        (ring(), pprjax.Paths.from_lists(ORIGINALS), r"^original: expected one path, got 3$"),
        (ring(max_distance=2), ONE, r"^task\.constraints: expected none"),
        (ring(), pprjax.Paths.from_lists([[3]]), r"^originals\[0\]: expected the world's start, symbol 0, got 3$"),
    ],
)
def test_what_does_not_fit_is_named(task, original, message):
    with pytest.raises(ValueError, match=message):
        pprjax.RecourseEnv(task, original, CONFIG)
