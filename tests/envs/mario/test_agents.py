"""Mario's players and the learner in a small game in place of the emulator."""

import dataclasses
import itertools
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from hypothesis import given, settings
from hypothesis import strategies as st
from mario_fake import COINS, GOAL_X, STEPS, TRAINING, Hopper, all_plans, explored, simulate, small, world
from pprjax_envs import mario
from pprjax_envs.mario import agents as mario_agents
from pprjax_envs.mario import emulator as mario_emulator
from pprjax_envs.mario import fitted

import pprjax


def test_who_knows_the_game_by_heart_takes_all_coins_or_none(known, players):
    env, table = known
    for player, coins in (("seeker", len(COINS)), ("dodger", 0)):
        state, plan = 0, []
        while table.nodes.next_state[state].max() >= 0:
            plan.append(int(np.argmax(players[player].probs[state])))
            state = table.nodes.next_state[state, plan[-1]]
        played = env.play(plan)
        assert (int(played.coins.sum()), played.dead) == (coins, False)
        assert played.x[-1] > GOAL_X


def scored(task, config, original):
    """R of each way to play that meets the goal, by Eq. 5 and from the game itself."""
    habit = np.asarray(pprjax.link(task.policy.probs, 2), float)
    values, symbols = [], []
    for plan in all_plans():
        seen = simulate(Hopper(), plan)
        if seen[-1][0] <= GOAL_X:
            continue
        way = list(itertools.accumulate(plan, lambda s, a: int(task.env.nodes.next_state[s, a]), initial=0))
        habits = sum(habit[state, action] for state, action in zip(way, plan, strict=False))
        values.append(sum(reward for *_, reward in seen) + config.lambda_policy * habits)
        x, y = task.env.nodes.x[way], task.env.nodes.y[way]
        symbols.append(x // 16 * 32 + y // 16)
    distance = np.asarray(pprjax.levenshtein(np.array(original), np.array(symbols, np.int32)))
    return np.array(values) + config.lambda_path / (distance + 1)


@pytest.mark.parametrize("player", ["seeker", "dodger"])
def test_the_bound_is_the_best_of_all_games_there_are(known, players, player):
    _, table = known
    task = mario.task(table, players[player])
    originals = mario.always_right(table)
    config = mario.SETTINGS
    best = pprjax.exact(task, originals, config)
    values = scored(task, config, originals.to_lists()[0])
    assert best.reward[0] == pytest.approx(values.max(), rel=1e-5)
    assert table.play(best.paths.actions_to_lists()[0]).coins.sum() == (2 if player == "seeker" else 0)


@struct.dataclass
class ByNode:
    """A table of P_A over the nodes of a game all of which is known, in the order in which they were found."""

    probs: jax.Array

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, jnp.log(self.probs[state.node])


@pytest.mark.slow
def test_the_learner_finds_the_bound_through_the_callback(known, players):
    """The grid world's learner, unchanged, on the game behind the callback."""
    env, table = known
    row = {key.tobytes(): i for i, key in enumerate(table.nodes.key)}
    rows = [row.get(key.tobytes(), -1) for key in env.explorer.nodes.key]  # states beyond the goal play no part
    config = mario.SETTINGS.replace(iterations=20, num_paths=16, num_best=4, updates=2, batch_size=32, width=32)
    for policy in players.values():
        task = mario.task(env, ByNode(policy.probs[np.array(rows)]))
        originals = mario.always_right(env)
        found = pprjax.recourse(task, originals, config, method="learn", key=jax.random.key(0))
        env.check()
        best = pprjax.exact(mario.task(table, policy), originals, config)
        assert found.status[0] == "reached_goal"
        assert found.reward[0] <= best.reward[0] + 1e-3
        assert found.reward[0] >= best.reward[0] - 0.1 * abs(best.reward[0])


def test_players_are_trained_saved_and_read_back(tmp_path):
    env = world()
    for player, coins in (("seeker", 2), ("dodger", 0)):
        policy, reloaded = mario_agents.trained(env, player, TRAINING, folder=tmp_path)
        assert not reloaded
        again, reloaded = mario_agents.trained(env, player, TRAINING, folder=tmp_path)
        assert reloaded
        jax.tree.map(np.testing.assert_array_equal, again, policy)
        table = env.explored()
        probs = np.asarray(again.table(table).probs)
        np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
        state, plan = 0, []
        while len(plan) < STEPS and table.nodes.next_state[state].max() >= 0:
            plan.append(int(np.argmax(np.where(table.nodes.next_state[state] >= 0, probs[state], 0))))
            state = table.nodes.next_state[state, plan[-1]]
        played = env.play(plan)
        assert (int(played.coins.sum()), played.dead) == (coins, False)


def test_the_network_of_pictures_is_the_tutorials():
    network = mario_agents.PixelNetwork(2)
    picture, zero = jnp.zeros((3, 84, 84)), jnp.int32(0)
    shapes = jax.eval_shape(network.init, jax.random.key(0), picture, zero, zero)
    sizes = sorted(leaf.size for leaf in jax.tree.leaves(shapes))
    kernels = [3 * 32 * 8 * 8, 32 * 64 * 4 * 4, 64 * 64 * 3 * 3, 3136 * 512, 512 * 2]
    assert sizes == sorted([*kernels, 32, 64, 64, 512, 2])
    assert jax.eval_shape(network.apply, shapes, picture, zero, zero).shape == (2,)


@pytest.mark.parametrize("view", ["features", pytest.param("pixels", marks=pytest.mark.slow)])
def test_a_player_does_not_depend_on_what_others_explored(view):
    training = dataclasses.replace(TRAINING, num_paths=2, beams=2, first_width=2, depth=3, updates=20)
    game = dict(game=lambda: Hopper(6, pictures=view == "pixels"), view=view)
    new, used = world(**game), explored(**small(**game))
    policies = [mario_agents.train(env, "dodger", training) for env in (new, used)]
    assert len(new.explorer) < len(used.explorer)
    for one, other in zip(*(jax.tree.leaves(p.params) for p in policies), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_player_who_sees_pictures_is_fitted_alike():
    env = world(game=lambda: Hopper(6, pictures=True), view="pixels")
    training = mario_agents.Training(rounds=1, num_paths=4, updates=4, batch_size=16)
    before = mario_agents.untrained(env, training)
    policy = mario_agents.train(env, "seeker", training)
    nodes = env.explorer.nodes
    assert len(env.explorer) == len(nodes.pictures)
    taste = mario_agents.Taste(100.0, training.effort)
    nothing = np.zeros(len(nodes.x))
    q = fitted.backed_up(
        nodes, nodes.next_state >= 0, taste.of_nodes(nodes), nothing, goal_x=GOAL_X, gamma=training.gamma
    )
    states = np.flatnonzero((q > -np.inf).any(1))
    known = fitted.labels(nodes, states, q, np.zeros_like(q, bool))
    np.testing.assert_allclose(
        np.asarray(fitted._observed(known, jnp.arange(5))), nodes.observations(states[:5]) / np.float32(255)
    )
    losses = [float(fitted._loss(p.params, p.network, known, jnp.arange(64))) for p in (before, policy)]
    assert losses[1] < losses[0]
    probs = np.asarray(policy.table(env.explored()).probs)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("player", "training", "message"),
    [
        ("walker", {}, "player: expected one of seeker, dodger, got 'walker'"),
        ("seeker", {"rounds": 0}, "rounds: expected at least 1, got 0"),
        ("seeker", {"temperatures": (1.0, 0.0)}, r"temperatures: expected numbers above 0, got \(1.0, 0.0\)"),
        ("seeker", {"learning_rate": 0.0}, "learning_rate: expected a number above 0, got 0.0"),
        ("seeker", {"gamma": 1.5}, r"gamma: expected a number in \[0, 1\], got 1.5"),
    ],
)
def test_a_mistake_in_the_training_is_named(known, player, training, message):
    with pytest.raises(ValueError, match=message):
        mario_agents.train(known[0], player, mario_agents.Training(**training))


@settings(max_examples=20, deadline=None)
@given(st.integers(84, 260), st.integers(84, 260), st.integers(0, 2**32 - 1))
def test_a_shrunk_picture_has_the_means_of_what_its_pixels_cover(height, width, seed):
    grey = np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)
    wanted = grey.astype(float)
    for axis, size in ((0, height), (1, width)):  # every row of either picture is some of these, and every column
        fine = np.moveaxis(np.repeat(wanted, 84, axis), axis, 0)
        wanted = np.moveaxis(fine.reshape(84, size, -1).mean(1), 0, axis)
    np.testing.assert_allclose(mario_emulator.shrink(grey), wanted, atol=0.51)


def test_features_find_the_nearest_enemies_blocks_and_steps():
    ram = np.zeros(2048, np.uint8)
    ram[0x6D], ram[0x86], ram[0xCE], ram[0x57], ram[0x0D] = 1, 40, 176, 0xE8, 0x80  # x 296, walking left, A held
    for slot, x in ((0, 320), (1, 296 + 600), (3, 290)):
        ram[0x0F + slot], ram[0x6E + slot], ram[0x87 + slot], ram[0xCF + slot] = 1, x >> 8, x & 255, 184
    ram[0x58] = 0xF8
    column = (296 + 40) // 16
    ram[0x500 + 208 + 5 * 16 + column % 16] = 0xC0
    for row in (10, 11, 12):
        ram[0x500 + 208 + row * 16 + 18 : 0x500 + 208 + row * 16 + 24] = 0x54 if row == 12 else 0
    ram[0x500 + 208 + 12 * 16 + 2 : 0x500 + 208 + 12 * 16 + 8] = 0x54
    ram[0x500 + 208 + 11 * 16 + 4] = 0x54
    seen = mario_emulator.features(ram)
    own, rest = seen[16:25], seen[25:]
    np.testing.assert_allclose(own[[0, 1, 7, 8]], [176 / 64 - 2, -24 / 20, 1, 0])
    np.testing.assert_allclose(rest[:8], [1, -6 / 64, 8 / 32, 0, 1, 24 / 64, 8 / 32, -8 / 10])
    np.testing.assert_allclose(rest[8:14], [1, (column * 16 - 296) / 64, (32 + 80 - 176) / 32, 0, 0, 0])
    np.testing.assert_allclose(rest[14:], np.array([1, 1, 2, 1, 1, 1]) / 4)
    assert len(seen) == mario_emulator.NUM_FEATURES


MANY = """
import faulthandler, sys
faulthandler.dump_traceback_later(240, exit=True)
import jax
from concurrent.futures import ThreadPoolExecutor
from mario_fake import STEPS, Hopper
from pprjax_envs import mario

env = mario.MarioEnv(game=lambda: Hopper(12), goal_x=200, max_steps=STEPS, memory=200_000)
params = env.default_params

def game(key):
    def step(state, key):
        _, state, reward, _, _ = env.step_env(key, state, jax.random.randint(key, (), 0, 2), params)
        return state, reward
    return jax.lax.scan(step, env.reset_env(key, params)[1], jax.random.split(key, STEPS))[1].sum()

games = jax.jit(lambda key: jax.vmap(game)(jax.random.split(key, 8)).sum())

def run(number):
    return float(games(jax.random.key(number)))

run(0)
with ThreadPoolExecutor(2) as pool:  # as `recourse` does, which trains on two threads
    list(pool.map(run, range(int(sys.argv[1]))))
env.check()
print(len(env.explorer))
"""


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1000])
def test_no_deadlock_in_many_rollouts_on_two_threads(runs):
    folder = Path(__file__).parents[2]  # of mario_fake
    command = [sys.executable, "-c", MANY, str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > runs
