"""Mario's world without the emulator: what is remembered of a game, its table, its players, its figures."""

import dataclasses
import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mario_fake import COINS, FLAG, GOAL_X, PIT, STEPS, TRAINING, Hopper, all_plans, explored, simulate, small, world
from pprjax_envs import mario
from pprjax_envs.mario import agents as mario_agents
from pprjax_envs.mario import emulator as mario_emulator
from pprjax_envs.mario import experiment, fitted
from pprjax_envs.mario import explorer as mario_explorer
from pprjax_envs.mario import figures as mario_figures
from pprjax_envs.mario import table as mario_table

import pprjax
from pprjax.cli import main

BOTH_COINS = [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]  # and over the pit
NO_COINS = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]  # over the pit alone
plans = st.lists(st.integers(0, 1), max_size=STEPS + 2)


@pytest.fixture(scope="module")
def known():
    """A game of which every step is remembered, and its table."""
    env = explored(**small())
    return env, env.explored()


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
            end = next((i for i, (at, *_) in enumerate(seen) if at > GOAL_X), len(seen) - 1)
            assert x[lane, : end + 1].tolist() == [at for at, *_ in seen[: end + 1]]
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

    there = jax.tree.map(np.asarray, run(jnp.asarray(actions)))
    for mine, its in zip((x, reward, terminated, x > GOAL_X, symbol), there, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_in_a_table_a_step_that_was_never_tried_is_not_available():
    env = world()
    env.play([0, 1, 0])
    table = env.explored()
    assert table.num_states == 4
    assert table.nodes.following.tolist() == [[1, -1], [-1, 2], [3, -1], [-1, -1]]
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
        state = table.nodes.following[state, action]
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


@pytest.fixture(scope="module")
def players(known):
    _, table = known
    return {player: mario_agents.planner(table, player) for player in mario_agents.COIN_REWARDS}


def test_who_knows_the_game_by_heart_takes_all_coins_or_none(known, players):
    env, table = known
    for player, coins in (("seeker", len(COINS)), ("dodger", 0)):
        state, plan = 0, []
        while table.nodes.following[state].max() >= 0:
            plan.append(int(np.argmax(players[player].probs[state])))
            state = table.nodes.following[state, plan[-1]]
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
        way = list(itertools.accumulate(plan, lambda s, a: int(task.env.nodes.following[s, a]), initial=0))
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


@dataclasses.dataclass(frozen=True)
class ByNode:
    """A table of P_A over the nodes of a game all of which is known, in the order in which they were found."""

    probs: jax.Array

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, jnp.log(self.probs[state.node])


jax.tree_util.register_dataclass(ByNode, ["probs"], [])


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
        while len(plan) < STEPS and table.nodes.following[state].max() >= 0:
            plan.append(int(np.argmax(np.where(table.nodes.following[state] >= 0, probs[state], 0))))
            state = table.nodes.following[state, plan[-1]]
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
        nodes, nodes.following >= 0, taste.of_nodes(nodes), nothing, goal_x=GOAL_X, gamma=training.gamma
    )
    states = np.flatnonzero((q > -np.inf).any(1))
    known = fitted.labels(nodes, states, q)
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


def test_jump_shares_are_means_over_all_games(known, players):
    _, table = known
    probs = np.asarray(players["seeker"].probs, float)
    weight, jumped = np.zeros(20), np.zeros(20)
    for plan in all_plans():
        state, chance, way = 0, 1.0, []
        for action in plan:
            way.append((state, chance))
            chance *= probs[state, action]
            state = table.nodes.following[state, action]
        for at, _ in way:  # a game counts with its own probability in each state on its way
            weight[table.nodes.x[at] // 16] += chance
            jumped[table.nodes.x[at] // 16] += chance * probs[at, 1]
    share = mario_figures.jump_share(table, probs)
    np.testing.assert_allclose(share, (jumped / np.where(weight > 0, weight, np.nan))[: len(share)], rtol=1e-5)


def test_the_share_of_a_path_is_counted_by_position():
    x = np.array([0, 3, 15, 16, 50])
    share = mario_figures.path_share(x, [0, 1, 1, 1, 0])
    np.testing.assert_allclose(share, [2 / 3, 1, np.nan, 0])


def test_who_falls_below_the_screen_is_drawn_below_it():
    np.testing.assert_array_equal(mario_figures.unwrapped(np.array([79, 4, 255, 250])), [79, 4, -1, -6])


def test_figures_are_drawn_without_the_game(known, players, tmp_path):
    from pprjax import plotting

    _, table = known
    plan = BOTH_COINS
    play = table.play(plan)
    rows = {
        "coin seeker": mario_figures.jump_share(table, np.asarray(players["seeker"].probs)),
        "PPR": mario_figures.path_share(play.x[:-1], plan),
    }
    strip = mario_figures.jumps(rows, coins=COINS)
    assert [label.get_text() for label in strip.axes[0].get_yticklabels()] == ["coin seeker", "PPR"]
    paths = {"original": (np.array([0, PIT]), np.array([79, 79])), "seeker": (play.x, play.y)}
    level = mario_figures.level(paths, goal_x=GOAL_X, died=["original"])
    assert [text.get_text() for text in level.legends[0].get_texts()] == ["original, dies", "seeker"]
    for name, figure in (("strip", strip), ("level", level)):
        plotting.save(figure, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


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
import jax, numpy as np
from concurrent.futures import ThreadPoolExecutor
from mario_fake import Hopper
from pprjax_envs import mario
from pprjax_envs.mario.agents import _games, Task
from pprjax.task import Task

class Even:
    def init(self): return ()
    def step(self, carry, state): return carry, jax.numpy.log(jax.numpy.full(2, 0.5))
jax.tree_util.register_static(Even)

env = mario.MarioEnv(game=lambda: Hopper(12), goal_x=200, max_steps=14, memory=200_000)
path = jax.tree.map(jax.numpy.asarray, mario.always_right(env))
task = Task(env, Even())
def run(number):
    return float(_games(task, path, jax.random.key(number), num=8).reward_goal.sum())
run(0)
with ThreadPoolExecutor(2) as pool:  # as `recourse` does, which trains on two threads
    list(pool.map(run, range(int(sys.argv[1]))))
env.check()
print(len(env.explorer))
"""


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1000])
def test_no_deadlock_in_many_rollouts_on_two_threads(runs):
    folder = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", MANY, str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > runs


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


def test_the_cross_entropy_of_a_path_is_the_mean_over_its_states(known, players):
    _, table = known
    play = table.play(BOTH_COINS)
    plays = {"original": table.play([0] * 9), "seeker": play, "dodger": table.play(NO_COINS)}
    found = experiment.path_cross_entropy(table, players, plays)
    for recourse in ("seeker", "dodger"):
        actions = plays[recourse].actions
        states = list(itertools.accumulate(actions, lambda s, a: int(table.nodes.following[s, a]), initial=0))[:-1]
        for player, policy in players.items():
            probs = np.asarray(policy.probs)[states, actions]
            assert found[recourse][player] == pytest.approx(-np.log(probs).mean(), rel=1e-5)


def test_the_kl_of_policies_is_the_mean_over_all_games(known, players):
    """Of each game that there is: its probability, and log P / Q of all that is done in it."""
    _, table = known
    mine, other = (np.asarray(players[player].probs, float) for player in ("seeker", "dodger"))
    chances, steps, divergence = 0.0, 0.0, 0.0
    for plan in all_plans():
        way = list(itertools.accumulate(plan, lambda s, a: int(table.nodes.following[s, a]), initial=0))[:-1]
        chance = mine[way, list(plan)].prod()
        chances += chance
        steps += chance * len(plan)
        divergence += chance * np.log(mine[way, list(plan)] / other[way, list(plan)]).sum()
    assert chances == pytest.approx(1)
    found = experiment.policy_kl(table, players)
    assert found["seeker"]["dodger"] == pytest.approx(divergence / steps, rel=1e-4)
    assert found["seeker"]["seeker"] == found["dodger"]["dodger"] == 0
    assert found["dodger"]["seeker"] > 0


def test_the_rows_of_the_strips_say_what_they_are(known, players):
    _, table = known
    plays = {"pit": {"seeker": table.play(BOTH_COINS), "dodger": table.play(NO_COINS)}}
    probs = {player: np.asarray(policy.probs) for player, policy in players.items()}
    rows = mario_figures.strips(table, probs, plays)
    assert list(rows) == [
        "coin seeker: probability", "pit, for the seeker: jumps made",
        "coin dodger: probability", "pit, for the dodger: jumps made",
    ]  # fmt: skip
    np.testing.assert_array_equal(rows["coin dodger: probability"], mario_figures.jump_share(table, probs["dodger"]))
    made = rows["pit, for the seeker: jumps made"]
    np.testing.assert_array_equal(np.flatnonzero(made == 1), [i for i, a in enumerate(BOTH_COINS) if a])


def test_the_flag_ends_a_path_where_there_is_no_goal_before():
    env = explored(**small(goal_x=10_000))
    assert env.explored().default_params.reached.sum() > 0
    played = env.play([0] * 5 + [1] + [0] * 12)
    assert played.x[-1] == FLAG and len(played.actions) == FLAG // 16
