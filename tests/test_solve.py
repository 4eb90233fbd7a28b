"""The front door: the same result whatever else is in the batch, never above the certificate, mistakes named."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from ring_road import CONFIG as RING
from ring_road import ORIGINALS as RING_PATHS
from ring_road import ring

from pprjax import TabularMDP
from pprjax.certify.optimum import exact
from pprjax.edit_distance import levenshtein
from pprjax.goals import reached
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.solve import frontier, recourse
from pprjax.task import Task

S, A, T = 7, 4, 7  # and settings of one shape with those of `ring_road`, to share its program
NEXT_STATE = np.array([[1, 2, 0], [2, 3, -1], [3, 0, 4], [4, 1, 5], [-1, 2, 6], [-1, -1, -1], [0, 0, 0]])
NEXT_STATE = np.pad(NEXT_STATE, ((0, 0), (0, 1)), constant_values=-1)
REWARD = np.array([[0, -0.5, 0], [0.5, 0, 0], [-1, 0, 0.5], [0, 0.5, 1], [0, 0, 2], [0, 0, 0], [0, 0, 0]])
REWARD = np.pad(REWARD, ((0, 0), (0, 1)))
PROBS = np.random.default_rng(1).dirichlet(np.ones(A), S) * (NEXT_STATE >= 0)
PROBS[5] = 1
TASK = Task(
    TabularMDP(NEXT_STATE, REWARD, np.arange(S) == 6, 0, T),
    TablePolicy(jnp.asarray(PROBS / PROBS.sum(1, keepdims=True), jnp.float32)),
    goal=reached,
)
CONFIG = RING.replace(lambda_path=2.0, lambda_policy=0.5)
LONG = [0, 1, 2, 3, 1, 2, 3, 4, 2, 4, 6]  # more symbols than T + 1, and padded further than the others are alone
ROWS = [[0, 1, 2, 0, 2, 3], LONG, [0, 2, 4, 6]]
KEY = jax.random.key(21)


def solve(rows, config=CONFIG, task=TASK, key=KEY, **changes):
    return recourse(task, Paths.from_lists(rows), config, method="learn", key=key, progress=False, **changes)


@pytest.fixture(scope="module")
def batch():
    return solve(ROWS, chunk=len(ROWS))  # all side by side in one program


def assert_same(one, other, rows, to=None):
    """Bit by bit: original `rows` of `one` is original `to` of `other`."""
    to = rows if to is None else to
    assert one.reward[rows] == other.reward[to]
    assert (one.curve[rows] == other.curve[to]).all()
    assert one.paths.to_lists()[rows] == other.paths.to_lists()[to]
    assert one.paths.actions_to_lists()[rows] == other.paths.actions_to_lists()[to]
    assert one.greedy_reward[rows] == other.greedy_reward[to]
    assert one.status[rows] == other.status[to]


def test_the_same_key_gives_the_same_result(batch):
    again = solve(ROWS)
    for i in range(3):
        assert_same(batch, again, i)
    other = solve(ROWS, key=jax.random.key(12))
    assert any((batch.curve[i] != other.curve[i]).any() for i in range(3))


def test_an_original_has_the_same_result_alone_and_padded_less(batch):
    for i in (0, 2):
        assert_same(batch, solve([ROWS[i]], ids=[i]), i, 0)


def test_an_original_has_the_same_result_in_any_place(batch):
    turned = solve(ROWS[::-1], ids=[2, 1, 0])
    for i in range(3):
        assert_same(batch, turned, i, 2 - i)


def test_each_lambda_is_as_if_alone(batch):
    path, policy = np.array([0.5, 2.0, 20.0]), np.array([0.0, 0.5, 3.0])
    together = solve(ROWS, CONFIG.replace(lambda_path=path, lambda_policy=policy))
    for i in range(3):
        config = CONFIG.replace(lambda_path=float(path[i]), lambda_policy=float(policy[i]))
        assert_same(together, solve(ROWS, config), i)
    assert together.lambda_path.tolist() == path.tolist()
    assert together.lambda_policy.tolist() == policy.tolist()
    assert (together.curve[0] != batch.curve[0]).any()


def assert_consistent(rec, rows, config, goal=None):
    """The paths are the world's, and are worth what is said (Eq. 1 and 5)."""
    for i, (path, actions) in enumerate(zip(rec.paths.to_lists(), rec.paths.actions_to_lists(), strict=True)):
        states, earned = [0], 0.0
        for action in actions:
            assert NEXT_STATE[states[-1], action] >= 0 and states[-1] != 6
            earned += REWARD[states[-1], action]
            states.append(int(NEXT_STATE[states[-1], action]))
        assert states == path
        assert len(actions) == T or states[-1] in (5, 6)
        assert rec.scores.distance[i] == levenshtein(np.array(rows[i]), np.array(path))
        assert rec.scores.goal[i] == pytest.approx(earned, abs=1e-5)
        assert rec.scores.path[i] == pytest.approx(1 / (rec.scores.distance[i] + 1))
        terms = earned + config.lambda_path * rec.scores.path[i] + config.lambda_policy * rec.scores.r_policy[i]
        assert rec.reward[i] == pytest.approx(terms, abs=1e-4)
        unchanged, flag = path == rows[i], states[-1] == 6
        ended = "cut" if not flag else "reached_goal"
        assert rec.status[i] == ("unchanged" if unchanged and (flag or goal is None) else ended)


def test_paths_are_the_worlds_and_worth_what_is_said(batch):
    assert_consistent(batch, ROWS, CONFIG, goal=reached)
    assert batch.curve.shape == (3, 20)
    assert batch.reward == pytest.approx(batch.curve[:, -1], rel=1e-6)  # which is float32
    assert (batch.greedy_reward <= batch.reward).all()
    assert batch.original_goal == pytest.approx([-1.0, 2.0, 2.0])


def test_recourse_attains_the_certificate_and_never_exceeds_it(batch):
    """A goal that few paths meet, and with λ_path = 30 one that better paths miss."""
    rows = Paths.from_lists(ROWS)
    assert batch.reward == pytest.approx(exact(TASK, rows, CONFIG).reward, abs=1e-4)
    for lambda_path, lambda_policy in ((30.0, 0.1), (0.0, 0.0), (0.1, 5.0)):
        config = CONFIG.replace(lambda_path=lambda_path, lambda_policy=lambda_policy)
        rec, best = solve(ROWS, config), exact(TASK, rows, config)
        assert (rec.reward <= best.reward + 1e-4).all()
        assert_consistent(rec, ROWS, config, goal=reached)
        assert np.isin(rec.status, ["reached_goal", "unchanged"]).all()


@pytest.mark.slow
def test_without_a_goal_eq_5_alone_decides():
    task, config = TASK.replace(goal=None), CONFIG.replace(lambda_path=30.0)
    rec = solve(ROWS, config, task)
    assert_consistent(rec, ROWS, config)
    assert (np.diff(rec.curve, axis=1) >= 0).all()
    assert (rec.reward <= exact(task, Paths.from_lists(ROWS), config).reward + 1e-4).all()
    assert rec.reward[0] > exact(TASK, Paths.from_lists(ROWS), config).reward[0]  # what the goal costs


def test_silence(batch, capfd):
    solve(ROWS)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "rows, changes, message",
    [
        ([[0, 1], [3, 4]], {}, r"originals\[1\].*start, symbol 0, got 3"),
        (ROWS, {"lambda_path": -1.0}, "lambda_path.*at least 0, got -1"),
        (ROWS, {"lambda_policy": np.nan}, "lambda_policy.*finite.*got nan"),
        (ROWS, {"lambda_policy": np.array([1.0, np.inf, 1.0])}, "lambda_policy.*got inf"),
        (ROWS, {"lambda_path": np.ones(2)}, r"lambda_path: expected .* float\[3\], got shape \(2,\)"),
        (ROWS, {"num_best": 65}, "num_best.*b = 64, got 65"),
        (ROWS, {"gamma": 1.5}, r"gamma.*\[0, 1\], got 1.5"),
        (ROWS, {"gamma": -0.1}, r"gamma.*got -0.1"),
    ],
)
def test_what_is_wrong_is_named(rows, changes, message):
    with pytest.raises(ValueError, match=message):
        solve(rows, CONFIG.replace(**changes))


def test_ids_are_one_for_each_original():
    with pytest.raises(ValueError, match=r"ids.*3 originals, got shape \(2,\)"):
        solve(ROWS, ids=np.arange(2))


def test_to_frame_has_a_row_a_path(batch):
    frame = batch.to_frame()
    assert frame.columns == [
        "path", "rank", "status", "method", "reward", "bound", "s_goal", "s_path", "s_policy", "r_policy", "distance",
        "violations", "length", "original_goal", "greedy_reward", "lambda_path", "lambda_policy", "diversity",
        "reliability", "reliability_error", "policy_reliability", "original", "recourse", "actions",
    ]  # fmt: skip
    assert frame["path"].to_list() == [0, 1, 2]
    assert frame["original"].to_list() == ROWS
    assert frame["recourse"].to_list() == batch.paths.to_lists()
    assert frame["actions"].to_list() == batch.paths.actions_to_lists()
    assert frame["length"].to_list() == [len(row) for row in batch.paths.to_lists()]
    assert frame["reward"].to_numpy().tolist() == batch.reward.tolist()
    actions = np.maximum(np.asarray(batch.paths.lengths) - 1, 1)
    probs = np.asarray(TASK.policy.probs)
    for i, row in enumerate(zip(batch.paths.to_lists(), batch.paths.actions_to_lists(), strict=True)):
        logs = sum(np.log(probs[s, a]) for s, a in zip(*row, strict=False))
        assert frame["s_policy"][i] == pytest.approx(logs / actions[i], rel=1e-4)


def test_plot_draws_the_curve_of_each_original(batch):
    drawn = [line.get_ydata() for line in batch.plot().lines]
    np.testing.assert_array_equal(drawn, np.where(np.isfinite(batch.curve), batch.curve, np.nan))


def test_saved_files_give_the_frame_back(batch, tmp_path):
    batch.save(tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(batch.to_frame())
    batch.save(tmp_path / "out.csv")
    table = pl.read_csv(tmp_path / "out.csv")
    assert table.columns == batch.to_frame().columns
    assert [[int(x) for x in row.split()] for row in table["recourse"]] == batch.paths.to_lists()
    assert table["reward"].to_numpy() == pytest.approx(batch.reward)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "out.parquet"]


@pytest.mark.parametrize("name", ["missing/out.parquet", "missing/out.csv", "out.xlsx"])
def test_nothing_is_left_behind_where_saving_fails(batch, tmp_path, name):
    with pytest.raises((OSError, ValueError)):
        batch.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_batch_of_paths_is_named():
    for front_door in (recourse, frontier):
        with pytest.raises(TypeError, match=r"originals: expected pprjax\.Paths, got list; pprjax\.Paths\.from_lists"):
            front_door(ring(), RING_PATHS, RING)


def test_what_is_printed_is_a_line_and_no_array():
    originals = Paths.from_lists(RING_PATHS)
    found, front = recourse(ring(), originals, RING), frontier(ring(), originals, RING)
    assert repr(originals) == "Paths(3 paths of 5 to 7 symbols)"
    assert repr(found) == "Recourse(3 for 3 originals: 3 reached_goal)"
    assert repr(front) == f"Frontier({len(front)} points for 3 originals: {len(front)} reached_goal)"
    assert repr(ring()) == "Task(TabularMDP, TablePolicy, goal=Reached, horizon=7)"
    seen = []
    jax.jit(lambda paths: seen.append(repr(paths)))(originals)  # as it is traced
    assert seen == ["Paths(0 paths)"]
