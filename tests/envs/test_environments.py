"""What every world must do. A new world is one more line in WORLDS."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from mario_fake import Hopper, explored
from pprjax_envs import GridWorld, MarioEnv
from pprjax_envs.lstm import LSTMClassifier
from pprjax_envs.sequence import SequenceEnv
from text_fake import world as sentences

from pprjax import TabularMDP
from pprjax.task import World


def tabular(**changes):
    """Four states in a ring, one way or the other, with an exit."""
    tables = dict(
        next_state=[[1, 3, -1], [2, 0, -1], [3, 1, 4], [0, 2, -1], [4, 4, 4]],
        reward=np.linspace(-1, 1, 15).reshape(5, 3),
        terminal=[False, False, False, False, True],
        start=1,
        max_steps=9,
        symbols=[7, 0, 5, 7, 2**31 - 1],
    )
    return TabularMDP(**tables | changes)


def stochastic():
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(5), (5, 3))
    transition[1, 2] = 0.0
    return tabular(next_state=None, transition=transition)


def sequences():
    """Four symbols out of nine, judged by an LSTM as it was initialized."""
    blank = LSTMClassifier(params=None, features=jnp.eye(10), width=4, num_classes=3)
    params = blank.network.init(jax.random.key(0), blank.init(), blank.features[0])
    return SequenceEnv(blank.replace(params=params), 2, num_symbols=9, length=4)


@struct.dataclass
class Length:
    """A judge that likes long sequences."""

    most: jax.Array  # float[]

    def probs(self, symbols, length):
        return jnp.stack([1.0 - length / self.most, length / self.most])


def sequences_with_an_end():
    return SequenceEnv(Length(jnp.float32(4.0)), 1, num_symbols=6, length=4, end=2)


WORLDS = {
    "tabular": tabular,
    "stochastic tables": stochastic,
    "grid world": GridWorld,
    "grid world with two moneys": lambda: GridWorld(["S$#F", "..H.", "$LL."], max_steps=12),
    "sequences": sequences,
    "sequences with an end, judged whole": sequences_with_an_end,
    "sentences": lambda: sentences().env,
    "Mario, a small game in place of the emulator": lambda: MarioEnv(game=Hopper, goal_x=200, max_steps=14),
    "Mario's table": lambda: explored(goal_x=200, max_steps=14).explored(),
}

LANES = 64


@pytest.fixture(scope="module", params=WORLDS.values(), ids=WORLDS)
def env(request):
    return request.param()


def random_action(env, key, state, params):
    available = env.available(state, params) if hasattr(env, "available") else jnp.ones(env.num_actions, bool)
    return jax.random.categorical(key, jnp.where(available, 0.0, -jnp.inf))


def specs(tree):
    return jax.tree.map(lambda x: (jnp.shape(x), jnp.asarray(x).dtype), tree)


@pytest.fixture(scope="module")
def play(env):
    """() -> [LANES, steps]: everything that is seen on the way, by steps that start anew where a path ends."""
    params = env.default_params

    def step(carry, key):
        _, state = carry
        key_action, key_step = jax.random.split(key)
        action = random_action(env, key_action, state, params)
        observation, state, reward, terminated, truncated, info = env.step(key_step, state, action, params)
        seen = dict(state=state, observation=observation, action=action, reward=reward, terminated=terminated,
                    truncated=truncated, info=info)  # fmt: skip
        return (observation, state), seen

    @jax.jit
    @jax.vmap
    def lane(key):
        return jax.lax.scan(step, env.reset(key, params), jax.random.split(key, 3 * params.max_steps_in_episode))[1]

    return lambda: jax.tree.map(np.asarray, lane(jax.random.split(jax.random.key(1), LANES)))


@pytest.fixture(scope="module")
def played(play):
    return play()


def each(function, tree):
    """`function` on every one of the [LANES, steps] entries of a tree."""
    return np.asarray(jax.jit(jax.vmap(jax.vmap(function)))(tree))


def test_is_a_world(env):
    assert isinstance(env, World)
    assert env.num_actions == env.action_space(env.default_params).n


def test_reset_and_step_keep_the_spec_of_the_state(env):
    params, key = env.default_params, jax.random.key(0)
    observation, state = env.reset(key, params)
    action = random_action(env, key, state, params)
    after_observation, after, *_ = env.step_env(key, state, action, params)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert specs(after) == specs(state)
    assert specs(after_observation) == specs(observation)


def test_step_returns_gymnaxs_six_values(env):
    params, key = env.default_params, jax.random.key(0)
    _, state = env.reset(key, params)
    observation, _, reward, terminated, truncated, info = env.step(key, state, 0, params)
    assert reward.shape == terminated.shape == truncated.shape == ()
    assert reward.dtype == jnp.float32
    assert terminated.dtype == truncated.dtype == bool
    assert {"terminated", "truncated", "final_observation"} <= set(info)
    assert specs(info["final_observation"]) == specs(observation)


def test_without_parameters_the_defaults_are_used(env):
    key = jax.random.key(2)
    state = env.reset(key)[1]
    given, default = env.step(key, state, 0, env.default_params), env.step(key, state, 0)
    jax.tree.map(np.testing.assert_array_equal, given, default)


def test_jit_and_vmap_agree_with_one_plain_step(env):
    params, keys = env.default_params, jax.random.split(jax.random.key(3), 5)

    def two_steps(key):
        state = env.reset_env(key, params)[1]
        for i in range(2):
            key = jax.random.fold_in(key, i)
            state = env.step_env(key, state, random_action(env, key, state, params), params)[1]
        return env.step_env(key, state, random_action(env, key, state, params), params)

    batched = jax.jit(jax.vmap(two_steps))(keys)
    for i, key in enumerate(keys[:2]):
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a, b[i], rtol=1e-6), two_steps(key), batched)


def test_same_key_and_action_same_result(play, played):
    jax.tree.map(np.testing.assert_array_equal, play(), played)


def test_everything_seen_is_finite_and_in_its_space(env, played):
    space = env.observation_space(env.default_params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((played["observation"], played["reward"])))
    assert each(space.contains, played["observation"]).all()
    assert each(space.contains, played["info"]["final_observation"]).all()
    assert each(env.action_space(env.default_params).contains, played["action"]).all()


def test_paths_end_within_the_horizon_and_start_anew(env, played):
    limit = env.default_params.max_steps_in_episode
    done = played["terminated"] | played["truncated"]
    time = np.asarray(played["state"].time)
    assert (time[done] == 0).all()
    assert (time < limit).all()
    previous = np.concatenate([np.zeros((LANES, 1), int), time[:, :-1]], 1)
    np.testing.assert_array_equal(played["truncated"], previous + 1 >= limit)
    np.testing.assert_array_equal(time[~done], previous[~done] + 1)
    assert done.any(1).all()


def test_a_symbol_is_a_natural_number(env, played):
    symbols = each(lambda state: env.symbol(state, env.default_params), played["state"])
    assert symbols.dtype == np.int32
    assert symbols.shape == played["reward"].shape
    assert (symbols >= 0).all()


def test_what_is_available_is_one_flag_an_action(env, played):
    if not hasattr(env, "available"):
        pytest.skip("all actions are available")
    available = each(lambda state: env.available(state, env.default_params), played["state"])
    assert available.dtype == bool
    assert available.shape == (*played["reward"].shape, env.num_actions)
    assert available.any(-1).all()


def test_states_of_a_finite_world_are_numbered(env, played):
    if not hasattr(env, "state_id"):
        pytest.skip("not finite")
    ids = each(lambda state: env.state_id(state, env.default_params), played["state"])
    assert ids.dtype == np.int32
    assert ids.shape == played["reward"].shape
    assert ids.min() >= 0
    assert ids.max() < env.num_states
    assert len(np.unique(ids)) > 1


def test_reached_goal_is_a_flag(env, played):
    if not hasattr(env, "reached_goal"):
        pytest.skip("natural termination")
    reached = each(lambda state: env.reached_goal(state, env.default_params), played["state"])
    assert reached.dtype == bool
    assert reached.shape == played["reward"].shape


QUICK_GYMNAX = """
import sys
from pprjax import TabularMDP
pictures = {"seaborn", "scipy.stats", "pandas", "matplotlib.pyplot"} & set(sys.modules)
assert not pictures, pictures
from gymnax.environments.misc import pong
used = pong.plt.figure
from matplotlib import pyplot
assert pyplot.figure is used
"""


def test_worlds_do_not_wait_for_what_draws_those_of_gymnax_which_draw_as_before():
    done = subprocess.run([sys.executable, "-c", QUICK_GYMNAX], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
