"""Mario's world without the emulator: what is remembered of a game, its table, its command."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mario_fake import BOTH_COINS, FLAG, GOAL_X, PIT, STEPS, Hopper, explored, simulate, small, world
from pprjax_envs import mario
from pprjax_envs.mario import emulator as mario_emulator
from pprjax_envs.mario import explorer as mario_explorer
from pprjax_envs.mario import table as mario_table

from pprjax.cli import main

plans = st.lists(st.integers(0, 1), max_size=STEPS + 2)


@pytest.fixture(scope="module")
def steps_of():
    """A function from an environment and plans, PAD to one length, to what its steps give, in one compiled scan."""

    def follow(env):
        params = env.default_params

        @jax.jit
        @jax.vmap
        def run(actions):
            def step(state, action):
                _, after, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
                return after, (after.x, reward, terminated, info["status"], env.symbol(after, params))

            return jax.lax.scan(step, env.reset_env(jax.random.key(0), params)[1], actions)[1]

        return lambda actions: jax.tree.map(np.asarray, run(jnp.asarray(actions)))

    return follow


@pytest.mark.parametrize("memory", [0, 4])
def test_a_step_is_what_the_game_does(steps_of, memory):
    env = world(game=lambda: Hopper(memory))
    follow = steps_of(env)
    rng = np.random.default_rng(0)
    for _ in range(3):
        actions = rng.integers(0, 2, (50, 13))
        x, reward, terminated, status, symbol = follow(actions)
        assert (status == 0).all()
        for lane, plan in enumerate(actions):
            seen = simulate(Hopper(), plan)
            end = next((i for i, (rows, *_) in enumerate(seen) if rows > GOAL_X), len(seen) - 1)
            assert x[lane, : end + 1].tolist() == [rows for rows, *_ in seen[: end + 1]]
            assert reward[lane, : end + 1].tolist() == [earned for *_, earned in seen[: end + 1]]
            assert terminated[lane, end:].tolist() == [x[lane, end] > GOAL_X or len(seen) < 13] * (13 - end)
            assert (x[lane, end:] == x[lane, end]).all()
            assert (reward[lane, end + 1 :] == 0).all()
            assert (symbol[lane] // 32 == x[lane] // 16).all()


@settings(max_examples=15, deadline=None)
@given(st.lists(plans, min_size=1, max_size=8), st.sampled_from([0, 3]), st.integers(1, 3), st.randoms())
def test_what_is_found_does_not_depend_on_the_order(found, memory, num_emulators, random):
    """Plans played one after another, and the same ones in another order, all at once, by several emulators."""
    envs = [world(game=lambda: Hopper(memory), num_emulators=n) for n in (1, num_emulators)]
    for plan in found:
        envs[0].play(plan)
    shuffled = random.sample(found, len(found))
    nodes, length = np.zeros(len(found), int), max(map(len, found))
    for t in range(length):
        actions = np.array([plan[t] if t < len(plan) else -1 for plan in shuffled])
        nodes = envs[1].explorer.step(nodes, actions).node
    one, other = (mario_table.canonical(env.explorer.nodes)[0].arrays() for env in envs)
    for name in one.keys() - {"parent", "parent_action"}:  # one of the ways to a node, whichever was first
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    for env in envs:
        env.close()


def test_equal_states_are_one_node_and_only_equal_ones(known):
    env, _ = known
    reachable, frontier = set(), {Hopper().state}
    game = Hopper()
    while frontier:
        reachable |= frontier
        ahead = set()
        for state in frontier:
            for action in range(2):
                game.restore(state)
                if not game.facts().done:
                    game.act(action)
                    ahead.add(game.state)
        frontier = ahead - reachable
    assert len(env.explorer) == len(reachable)
    assert len({key.tobytes() for key in env.explorer.nodes.key}) == len(reachable)


def test_memory_stays_within_its_bound_over_many_games(monkeypatch):
    games, lanes, memory = 5_000, 500, 250_000
    env = world(game=lambda: Hopper(memory=9), memory=memory)
    most, trim = [], mario_explorer.Explorer._trim

    def watched(self):
        most.append(self.snapshot_bytes)
        trim(self)

    monkeypatch.setattr(mario_explorer.Explorer, "_trim", watched)
    rng = np.random.default_rng(1)
    for _ in range(games // lanes):
        nodes, earned = np.zeros(lanes, int), np.zeros(lanes)
        plans = rng.integers(0, 2, (lanes, 15))
        for actions in plans.T:
            step = env.explorer.step(nodes, actions)
            nodes, earned = step.node, earned + step.reward
            assert env.explorer.snapshot_bytes <= memory
        plan = plans[0].tolist()
        assert earned[0] == sum(reward for *_, reward in simulate(Hopper(), plan))
    env.check()
    assert max(most) <= memory
    assert len(env.explorer) > 5 * memory / Hopper.snapshot_bytes  # most of it was dropped, and played again
    assert sum(emulator.played for emulator in env.explorer._emulators) > env.explorer.played


def test_what_the_host_raises_ends_the_path_and_is_raised_outside(steps_of):
    env = world(game=lambda: Hopper(breaks_at=128))
    plans = np.array([[0] * 10, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]])  # into the pit, and over it
    x, reward, terminated, status, _ = steps_of(env)(plans)
    assert status.tolist() == [[0] * 10, [0] * 8 + [1, 1]]
    assert terminated[1].tolist() == [False] * 8 + [True, True]
    assert x[1, -1] == 128 and reward[1, -1] == 0
    assert x[0, -1] == PIT and not status[0].any()
    with pytest.raises(BrokenPipeError, match="broken at 128"):
        env.check()
    env.check()  # once


def test_a_game_that_is_not_deterministic_is_found_out():
    class Fickle(Hopper):
        def act(self, action):
            result = super().act(action)
            if self.played > 40:
                self.state = (self.state[0] + 1, *self.state[1:])
            return result

    env = world(game=Fickle, memory=1, num_emulators=1)
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="another way"):
        for _ in range(100):
            env.play(rng.integers(0, 2, 14).tolist())


def test_a_table_is_the_world_that_was_explored(known, steps_of):
    env, table = known
    follow = steps_of(env)
    actions = np.random.default_rng(2).integers(0, 2, (64, 14))
    x, reward, terminated, _, symbol = follow(actions)
    params = table.default_params

    @jax.jit
    @jax.vmap
    def run(plan):
        def step(state, action):
            _, after, reward, terminated, _ = table.step_env(jax.random.key(0), state, action, params)
            goal = table.reached_goal(after, params)
            return after, (params.x[after.id], reward, terminated, goal, table.symbol(after, params))

        return jax.lax.scan(step, table.reset_env(jax.random.key(0), params)[1], plan)[1]

    valid = jax.tree.map(np.asarray, run(jnp.asarray(actions)))
    for rows, its in zip((x, reward, terminated, x > GOAL_X, symbol), valid, strict=True):
        np.testing.assert_array_equal(rows, its)


def test_in_a_table_a_step_that_was_never_tried_is_not_available():
    env = world()
    env.play([0, 1, 0])
    table = env.explored()
    assert table.num_states == 4
    assert table.nodes.next_state.tolist() == [[1, -1], [-1, 2], [3, -1], [-1, -1]]
    assert table.play([0, 1, 0, 0, 0]).actions == [0, 1, 0]


def test_rewards_of_a_table_have_the_coins_on_top(known):
    env, _ = known
    plan = BOTH_COINS
    played = env.play(plan)
    assert played.coins.sum() == 2
    table = env.explored(coin_reward=7.0)
    rows = np.asarray(table.default_params.reward)
    state, earned = 0, 0.0
    for action in plan:
        earned += rows[state, action]
        state = table.nodes.next_state[state, action]
    assert earned == played.reward.sum() + 14


@pytest.mark.parametrize("kind", mario_table.SYMBOLS)
def test_symbols_say_where_mario_is(kind):
    x, y = np.meshgrid(np.arange(0, 3200, 7), np.arange(0, 500, 3))
    symbols = mario_table.symbol(x, y, kind)
    same = {"tile": (x // 16, y // 16), "column": (x // 16,), "pixel": (x, y)}[kind]
    _, group = np.unique(np.stack([part.ravel() for part in same]), axis=1, return_inverse=True)
    _, named = np.unique(symbols.ravel(), return_inverse=True)
    assert len(np.unique(np.stack([group, named]), axis=1).T) == group.max() + 1 == named.max() + 1
    assert symbols.min() >= 0 and symbols.max() < 2**31


def test_a_table_is_saved_and_goes_on_where_it_was(tmp_path):
    env = explored(**small(game=lambda: Hopper(3)))
    env.save(tmp_path / "explored.npz")
    again = world(game=lambda: Hopper(3), table=tmp_path / "explored.npz")
    assert len(again.explorer) == len(env.explorer)
    plan = BOTH_COINS
    for name, value in dataclasses.asdict(env.play(plan)).items():
        np.testing.assert_array_equal(getattr(again.play(plan), name), value)
    assert again.explorer.played == 0
    assert sum(emulator.played for emulator in again.explorer._emulators) == 0


def test_half_a_table_is_completed_by_playing_its_ways_again(tmp_path):
    env = world(game=lambda: Hopper(3))
    rng = np.random.default_rng(0)
    for _ in range(20):
        env.play(rng.integers(0, 2, 6).tolist())
    env.save(tmp_path / "half.npz")
    whole = explored(**small(game=lambda: Hopper(3), table=tmp_path / "half.npz"))
    whole.check()
    direct = explored(**small(game=lambda: Hopper(3)))
    one, other = (mario_table.canonical(e.explorer.nodes)[0].arrays() for e in (whole, direct))
    for name in one.keys() - {"parent", "parent_action"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("change", [{"rom": "another"}, {"stage": "1-2"}, {"frame_skip": 5}, {"actions": ("right",)}])
def test_a_table_of_another_game_is_refused(tmp_path, change):
    env = world()
    env.save(tmp_path / "explored.npz")
    with pytest.raises(ValueError, match=f"table: expected {next(iter(change))} "):
        mario_table.load(tmp_path / "explored.npz", dataclasses.replace(env.game, **change))


@pytest.mark.parametrize("content", [b"", b"no table", b"PK\x03\x04 half"])
def test_a_file_that_is_no_table_is_named(tmp_path, content):
    path = tmp_path / "explored.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table: expected a table of Mario's, got .*explored\.npz"):
        mario_table.load(path)


def test_another_start_is_another_game(tmp_path):
    class Later(Hopper):
        def start(self):
            self.state = (16, 0, 0, ())

    world().save(tmp_path / "explored.npz")
    with pytest.raises(ValueError, match="known: expected nodes of the same game"):
        world(game=Later, table=tmp_path / "explored.npz")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"symbols": "words"}, "symbols: expected one of tile, column, pixel, got 'words'"),
        ({"view": "sound"}, "view: expected one of features, pixels, got 'sound'"),
        ({"max_steps": 0}, "max_steps: expected at least 1, got 0"),
        ({"goal_x": 0}, "goal_x: expected more than the start's 0 pixels, got 0"),
        ({"num_emulators": 0}, "num_emulators: expected at least 1, got 0"),
    ],
)
def test_a_mistake_in_the_world_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        world(**settings)


@pytest.fixture
def without_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym_super_mario_bros._roms", None)
    monkeypatch.setitem(sys.modules, "gym_super_mario_bros", None)


def test_without_the_emulator_one_sentence_says_what_to_install(tmp_path, capsys, without_extra):
    assert main(["mario", "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"pprjax mario: {mario_emulator.INSTALL}\n"
    assert "pip install 'PATH/TO/pprjax[mario]'" in printed.err
    assert printed.out == "" and not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=r"needs Python 3\.13"):
        mario.MarioEnv()


def test_the_command_explains_its_options(capsys):
    with pytest.raises(SystemExit):
        main(["mario", "--help"])
    shown = capsys.readouterr().out
    for option in ("--video", "--table", "--snapshots", "--lambda-path", "--lambda-policy", "--calls"):
        assert option in shown


def test_the_flag_ends_a_path_where_there_is_no_goal_before():
    env = explored(**small(goal_x=10_000))
    assert env.explored().default_params.reached.sum() > 0
    played = env.play([0] * 5 + [1] + [0] * 12)
    assert played.x[-1] == FLAG and len(played.actions) == FLAG // 16
