"""The real game: what it does, that saving and restoring lose nothing, and the whole experiment. Needs the extra."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from pprjax_envs import mario
from pprjax_envs.mario import experiment
from pprjax_envs.mario import figures as mario_figures
from pprjax_envs.mario import table as mario_table
from pprjax_envs.mario.emulator import QUESTION_BLOCKS, NESEmulator, rom_hash

pytest.importorskip("gym_super_mario_bros", reason="the emulator needs Python 3.13")


def plan(text):
    """R is right, J right and jump, X×n n times."""
    actions = []
    for part in text.split():
        keys, _, times = part.partition("×")
        actions += ["RJ".index(key) for key in keys] * int(times or 1)
    return actions


SEEKS, DODGES = "R×31 JJJ RR J R×10 J R×8 J R×7", "R×33 JJ R×23 J R×5"
PLAYS = {
    "R×90": (296, 0, True),
    SEEKS: (464, 2, False),
    DODGES: (464, 0, False),
    "R×31 JJJ RR JJJJ R×6 J R×6 J R×23 JJJ R×4": (604, 2, False),
    "R×35 J R×22 J R×21 JJJ R": (604, 0, False),
}


@pytest.fixture(scope="module")
def emulator():
    return NESEmulator()


@pytest.fixture(scope="module")
def env():
    env = mario.MarioEnv()
    yield env
    env.close()


def seen(emulator, actions):
    """After each action: the key, the reward and the coins."""
    rows = []
    for action in actions:
        if emulator.done:
            break
        reward, coins = emulator.act(action)
        rows.append((emulator.key(), reward, coins))
    return rows


@pytest.mark.parametrize("text", PLAYS)
def test_where_plays_end(env, text):
    play = env.play(plan(text))
    assert (int(play.x[-1]), int(play.coins.sum()), play.dead) == PLAYS[text]


def test_always_right_dies_at_step_40_with_231_points(env):
    play = env.play([0] * 90)
    assert len(play.actions) == 40
    assert play.reward.sum() == 231
    assert mario.always_right(env).to_lists() == [play.symbols]
    assert (np.array(play.symbols) // 32 == play.x // 16).all()


def test_originals_end_as_their_titles_say():
    plays = experiment.played_originals()
    assert {name: play.dead for name, play in plays.items()} == {"enemy": True, "pipe": False, "pit": True}
    assert {name: int(play.x.max()) for name, play in plays.items()} == {"enemy": 296, "pipe": 435, "pit": 1138}
    for name, play in plays.items():  # a recourse gets 100 pixels further, alive
        assert play.x.max() + 100 <= mario.ORIGINALS[name].goal_x <= play.x.max() + 101
        assert play.coins.sum() == 0
    assert plays["pipe"].x[-1] < 335  # turned back


def test_coins_and_pipe_are_where_they_should_be(emulator):
    emulator.start()
    ram = np.array(emulator._game.ram)
    tiles = ram[0x500:0x6A0].reshape(2, 13, 16)
    assert sorted({256 + 16 * int(c) for r, c in np.argwhere(np.isin(tiles[1], QUESTION_BLOCKS))}) == [
        256,
        336,
        352,
        368,
    ]
    seen(emulator, plan(SEEKS)[:40])  # so far that the game has read the pipe into memory
    tiles = np.array(emulator._game.ram)[0x500:0x6A0].reshape(2, 13, 16)
    walls = np.flatnonzero(tiles[1][10] != 0)  # right above the ground
    assert 256 + 16 * int(walls[0]) == 448


def test_the_reward_is_the_clipped_sum_of_three_parts_of_each_frame():
    import warnings

    from gym_super_mario_bros.smb_env import SuperMarioBrosEnv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        game = SuperMarioBrosEnv(target=(1, 1))
    emulator = NESEmulator()
    actions = np.random.default_rng(3).integers(0, 2, 45)
    game.reset()
    for action in actions:
        wanted = 0.0
        for _ in range(4):
            *_, terminated, _, info = game.step(0x81 if action else 0x80)
            parts = info["reward_components"]
            wanted += max(-15, min(15, parts["progress"] + parts["time"] + parts["death"]))
            if terminated:
                break
        assert emulator.act(int(action))[0] == wanted
        assert emulator.facts().x == info["x_pos"]
        if terminated:
            break


def test_the_same_actions_give_the_same_memory_and_screen(emulator):
    actions = plan("R×12 JJJJ R×4 J")
    other = NESEmulator()
    seen(other, plan("J×9"))  # a past of its own
    other._game.reset(seed=5)
    other.start()
    emulator.start()
    assert seen(emulator, actions) == seen(other, actions)
    np.testing.assert_array_equal(emulator.screen()[0], other.screen()[0])
    np.testing.assert_array_equal(emulator._game.ram, other._game.ram)


def test_a_snapshot_goes_on_as_if_nothing_had_been_between_by_another_emulator_too(emulator):
    emulator.start()
    seen(emulator, plan("R×28"))
    snapshot, rest = emulator.save(), plan("R×3 JJJ RR J")
    straight = seen(emulator, rest)
    seen(emulator, plan("J×4"))
    emulator.restore(snapshot)
    assert seen(emulator, rest) == straight
    other = NESEmulator()
    other.restore(snapshot)
    assert seen(other, rest) == straight
    assert sum(coins for *_, coins in straight) == 1


def test_without_the_trackers_rewards_are_wrong_after_a_restore(emulator):
    emulator.start()
    snapshot = emulator.save()
    straight = [reward for _, reward, _ in seen(emulator, plan("R×10"))]
    seen(emulator, plan("R×10"))
    emulator._game.load_state(snapshot[0])  # the game alone
    assert [reward for _, reward, _ in seen(emulator, plan("R×10"))] != straight
    emulator.restore(snapshot)
    assert [reward for _, reward, _ in seen(emulator, plan("R×10"))] == straight


def test_screens_and_features_are_copies(emulator):
    emulator.start()
    before, facts = emulator.screen()[0], emulator.facts()
    kept = before.copy(), facts.features.copy()
    seen(emulator, plan("R×6"))
    np.testing.assert_array_equal(before, kept[0])
    np.testing.assert_array_equal(facts.features, kept[1])
    assert (emulator.screen()[0] != before).any()


def games(num, length, seed):
    """Random plays that share their beginnings."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 2, length)
    plays = np.tile(start, (num, 1))
    for play in plays:
        cut = rng.integers(0, length)
        play[cut:] = rng.integers(0, 2, length - cut)
    return plays


def test_neither_order_nor_memory_nor_threads_change_what_is_found():
    plays = games(8, 14, 0)
    roomy, tight = mario.MarioEnv(num_emulators=1), mario.MarioEnv(num_emulators=2, memory=1)
    for play in plays:
        roomy.play(play.tolist())
    nodes = np.zeros(len(plays), int)
    for actions in plays[::-1].T:
        nodes = tight.explorer.step(nodes, actions).node
    tight.check()
    one, other = (mario_table.canonical(env.explorer.nodes)[0].arrays() for env in (roomy, tight))
    for name in one.keys() - {"parent", "parent_action"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    for env in (roomy, tight):
        env.close()


RESIDENT = """
import sys
import numpy as np
from pprjax_envs.mario.emulator import NESEmulator
from pprjax_envs.mario.explorer import Explorer

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

emulator = NESEmulator()
before = resident()
kept = [emulator.save() for _ in range(300)]
print((resident() - before) / 300, emulator.snapshot_bytes)
kept.clear()

explorer = Explorer(NESEmulator, memory=int(sys.argv[1]))
before, rng = resident(), np.random.default_rng(0)
while len(explorer) < 400:
    node = np.zeros(1, int)
    for action in rng.integers(0, 2, 40):
        node = explorer.step(node, np.array([action])).node
        assert explorer.snapshot_bytes <= int(sys.argv[1])
explorer.check()
print(resident() - before, explorer.snapshot_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_snapshots_are_counted_at_what_they_take():
    """What the process grows by, and not what Python sees, which is a pointer."""
    memory = 40 * 2**20  # the snapshots of 160 states; 400 or more are found
    done = subprocess.run([sys.executable, "-c", RESIDENT, str(memory)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (taken, counted), (grown, held) = (map(float, line.split()) for line in done.stdout.splitlines())
    assert taken == pytest.approx(counted, rel=0.05)
    assert 0 < held <= memory
    assert grown <= 1.25 * memory


def test_merged_states_go_on_alike(emulator, env):
    for play in games(10, 30, 1):
        env.play(play.tolist())
    next_state = env.explorer.nodes.next_state
    nodes, counts = np.unique(next_state[next_state >= 0], return_counts=True)
    merged = nodes[counts > 1][:6]
    assert merged.size
    for node in merged:
        futures = []
        for before, action in np.argwhere(next_state == node)[:2]:
            way = [int(action)]
            while before > 0:
                way.append(int(env.explorer.nodes.parent_action[before]))
                before = env.explorer.nodes.parent[before]
            emulator.start()
            seen(emulator, way[::-1])
            futures.append(seen(emulator, plan("R JJ R")))
        assert futures[0] == futures[1]


def test_a_saved_table_knows_its_rom_and_holds_no_part_of_it(env, tmp_path):
    env.play(plan(DODGES))
    env.save(tmp_path / "explored.npz")
    nodes, game = mario_table.load(tmp_path / "explored.npz", env.game)
    assert game.rom == rom_hash()
    assert len(nodes.x) == len(env.explorer)
    again = mario.MarioEnv(table=tmp_path / "explored.npz")
    assert int(again.play(plan(DODGES)).x[-1]) == 464
    assert again.explorer.played == 0
    again.play(plan(f"{DODGES} RR"))  # beyond what is known, from a node without a snapshot
    assert again.explorer.played == 2
    again.close()
    with pytest.raises(ValueError, match="table: expected frame_skip 3 and not 4"):
        mario.MarioEnv(mario.Game(frame_skip=3), table=tmp_path / "explored.npz")
    assert {name for name in np.load(tmp_path / "explored.npz")} == {"about", *nodes.arrays()}


def test_pixels_are_the_last_three_pictures(emulator):
    env = mario.MarioEnv(view="pixels", num_emulators=1)
    params, key = env.default_params, jax.random.key(0)
    observation, state = env.reset_env(key, params)
    shown = [observation]
    for action in plan("R×5 J"):
        observation, state, *_ = env.step_env(key, state, action, params)
        shown.append(observation)
    assert observation.shape == (3, 84, 84) and observation.dtype == jnp.float32
    assert 0 <= float(observation.min()) < float(observation.max()) <= 1
    emulator.start()
    pictures = [emulator.picture()] * 3
    for t, action in enumerate([None, *plan("R×5 J")]):
        if action is not None:
            emulator.act(action)
            pictures.append(emulator.picture())
        np.testing.assert_allclose(np.asarray(shown[t]) * 255, np.stack(pictures[-3:]), atol=1e-3)
    with pytest.raises(ValueError, match="pictures: expected a game without"):
        env.save("nowhere.npz")
    env.close()


def test_the_level_is_put_together_of_screens_and_filmed(emulator, tmp_path):
    from PIL import Image, ImageSequence

    picture = mario_figures.panorama(emulator, [plan("R×25")])
    assert picture.shape[0] == 240 and picture.shape[1] > 256
    emulator.start()
    np.testing.assert_array_equal(picture[:, :256], emulator.screen()[0])
    mario_figures.film(emulator, [plan("R×3"), plan("JJ")], tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.size == (512, 240)
        shown = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]
    assert sum(shown) == 7 * 30  # milliseconds: every other of 13 frames; equal ones are joined


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stage": "9-1"}, 'stage: expected a world and a stage from "1-1" to "8-4", got \'9-1\''),
        ({"actions": ("right", "fly")}, "actions: expected names out of A, B, up, down, left, right joined by"),
        ({"actions": ()}, "actions, frame_skip: expected at least 1 of each, got 0 and 4"),
        ({"frame_skip": 0}, "actions, frame_skip: expected at least 1 of each, got 2 and 0"),
    ],
)
def test_a_mistake_is_named(settings, message):
    with pytest.raises(ValueError) as error:
        mario.MarioEnv(mario.Game(**settings))
    assert message in str(error.value)


COMMAND = [sys.executable, "-m", "pprjax", "mario"]


@pytest.mark.slow
def test_the_whole_experiment_holds_what_the_paper_says(tmp_path):
    """From nothing; and a first run is killed in its middle, which the second one does not mind."""
    arguments = [*COMMAND, "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(40)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    started = time.perf_counter()
    video = tmp_path / "film.gif"
    done = subprocess.run([*arguments, "--video", str(video)], capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "explored.npz", "jumps.png", "ladder.png", "ladders.parquet", "level-enemy.png", "level-pipe.png",
        "level-pit.png", "recourse.parquet", "summary.json",
    ]  # fmt: skip
    assert video.read_bytes().startswith(b"GIF8")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    for player, facts in summary["players"].items():
        assert facts["alive_beyond"] > facts["games"] / 2
        assert facts["entropy"] < 0.2, player  # of 0.69 nats; the rule asks for a quarter of them, in other games
    assert summary["players"]["seeker"]["coins"] > summary["players"]["dodger"]["coins"] + 1
    rows = pl.read_parquet(tmp_path / "out" / "recourse.parquet")
    for name, original in mario.ORIGINALS.items():
        for player in mario.PLAYERS:
            row = rows.row(by_predicate=(pl.col("player") == player) & (pl.col("original") == name), named=True)
            assert row["survives"] and row["x"] > original.goal_x
        for player, values in summary["path_cross_entropy"][name].items():
            assert min(values, key=values.get) == player
    for player, values in summary["policy_kl"].items():
        assert values.pop(player) == 0 and min(values.values()) > 0
    print(f"{time.perf_counter() - started:.0f} s")
