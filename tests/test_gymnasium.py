"""to_gymnasium: the same rewards as in gymnax, by Gymnasium's own checker's rules, with the last observation kept."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from ring_road import CONFIG, ORIGINALS, ring

import pprjax

ONE = pprjax.Paths.from_lists(ORIGINALS[:1])


@pytest.mark.filterwarnings("error")
def test_gymnasium_finds_nothing_to_say():
    check_env(pprjax.to_gymnasium(pprjax.RecourseEnv(ring(), ONE, CONFIG)), skip_render_check=True)


def test_an_episode_earns_what_it_earns_in_gymnax_and_stands_still_at_its_end():
    inner = pprjax.RecourseEnv(ring(), ONE, CONFIG)
    env, params, rng = pprjax.to_gymnasium(inner, seed=3), inner.default_params, np.random.default_rng(0)
    seen, _ = env.reset()
    first, state = inner.reset_env(jax.random.key(0), params)
    np.testing.assert_array_equal(seen, first)
    over, steps = False, 0
    while not over:
        action = int(rng.integers(inner.num_actions))
        seen, reward, terminated, truncated, info = env.step(action)
        expected, state, paid, ended, known = inner.step_env(jax.random.key(0), state, jnp.int32(action), params)
        np.testing.assert_allclose(seen, expected, rtol=1e-6)
        assert (reward, terminated, truncated) == (pytest.approx(float(paid)), bool(ended), False)
        assert info["distance"] == known["distance"]
        over, steps = terminated, steps + 1
    assert steps > 1
    assert not np.array_equal(seen, first)


def test_the_time_limit_of_an_environment_without_one_of_its_own_truncates():
    import gymnax

    inner, params = gymnax.make("CartPole-v1")
    env = pprjax.to_gymnasium(inner, params.replace(max_steps_in_episode=3))
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    again = env.reset(seed=0)[0]
    np.testing.assert_array_equal(env.reset(seed=0)[0], again)
    assert not np.array_equal(env.reset()[0], again)


def test_what_is_no_gymnax_environment_is_named():
    with pytest.raises(TypeError, match=r"^env: expected a gymnax environment, got CartPoleEnv$"):
        pprjax.to_gymnasium(gymnasium.make("CartPole-v1").unwrapped)
    with pytest.raises(RuntimeError, match=r"^step: expected `reset`"):
        pprjax.to_gymnasium(pprjax.RecourseEnv(ring(), ONE, CONFIG)).step(0)
