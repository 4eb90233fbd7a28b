import itertools

import jax
import numpy as np
import pytest
from grid_walks import greedy, tables, walk
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import GridWorld, gridworld

from pprjax.goals import reached
from pprjax.reward import link

MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
SMALL = ("S.H", "L#$", "L.F")


@st.composite
def maps(draw, max_size=4):
    rows, columns = draw(st.integers(1, max_size)), draw(st.integers(2, max_size))
    letters = draw(st.lists(st.sampled_from("HL..#$"), min_size=rows * columns, max_size=rows * columns))
    start, flag = draw(st.permutations(range(rows * columns)))[:2]
    letters[start], letters[flag] = "S", "F"
    for extra in [i for i, letter in enumerate(letters) if letter == "$"][2:]:
        letters[extra] = "."
    return tuple("".join(letters[r * columns : (r + 1) * columns]) for r in range(rows))


def enter(map, cell, move):
    """The letter that a move from (row, column) leads to, and its place; None where there is none."""
    r, c = cell[0] + move[0], cell[1] + move[1]
    inside = 0 <= r < len(map) and 0 <= c < len(map[0])
    return ((r, c), map[r][c]) if inside and map[r][c] != "#" else None


def reachable(map):
    todo = [(r, c) for r, row in enumerate(map) for c, letter in enumerate(row) if letter == "S"]
    seen = set(todo)
    while todo:
        cell = todo.pop()
        for move in MOVES.values():
            if (hit := enter(map, cell, move)) and hit[0] not in seen:
                seen.add(hit[0])
                todo.append(hit[0])
    return any(map[r][c] == "F" for r, c in seen)


# the world


@settings(max_examples=60, deadline=None)
@given(map=maps())
def test_tables_are_the_rules_of_the_game(map):
    if not reachable(map):
        with pytest.raises(ValueError, match="out of reach"):
            GridWorld(map)
        return
    env = GridWorld(map)
    next_state, reward, terminal = tables(env)
    columns, num_cells = len(map[0]), len(map) * len(map[0])
    moneys = [i for i, letter in enumerate("".join(map)) if letter == "$"]
    assert env.num_states == num_cells * 2 ** len(moneys)
    for s, (a, move) in itertools.product(range(env.num_states), enumerate(MOVES.values())):
        taken, cell = divmod(s, num_cells)
        hit = enter(map, divmod(cell, columns), move)
        if hit is None or terminal[s]:
            assert next_state[s, a] == -1
            continue
        (r, c), letter = hit
        target = r * columns + c
        bit = 1 << moneys.index(target) if letter == "$" else 0
        fresh = bit & ~taken
        assert next_state[s, a] == (taken | bit) * num_cells + target
        assert reward[s, a] == (30 if fresh else 80 if letter == "F" else -1)
    np.testing.assert_array_equal(terminal, env.cells[np.arange(env.num_states) % num_cells] == "F")
    np.testing.assert_array_equal(env.default_params.symbols, np.arange(env.num_states) % num_cells)


def test_actions_are_named_in_their_order():
    assert list(MOVES) == list(gridworld.ACTIONS)


def test_the_goal_is_the_flag_and_nothing_else():
    env = GridWorld()
    state = env.reset_env(jax.random.key(0), env.default_params)[1]
    ids = np.arange(env.num_states)
    at_goal = jax.vmap(lambda s: env.reached_goal(state.replace(id=s), env.default_params))(ids)
    np.testing.assert_array_equal(at_goal, env.cells[ids % env.cells.size] == "F")


def test_a_map_may_be_one_string():
    text = """
        S.H
        L#$
        L.F
    """
    assert GridWorld(text).map == GridWorld(SMALL).map == SMALL


@pytest.mark.parametrize(
    ("map", "message"),
    [
        ([], "empty map"),
        ("", "empty map"),
        ([""], r"empty map \(row 0, column 0\)"),
        (["S.F", ".."], r"row 1, column 2: expected 3 columns as in row 0, got 2"),
        (["S.F", "...."], r"row 1, column 3: expected 3 columns as in row 0, got 4"),
        (["S.F", ".x."], r"row 1, column 1 \(counted from 0\): expected one of S F \$ H L \. #, got 'x'"),
        (["..F", "..."], "expected one start S, got none in rows 0 to 1, columns 0 to 2"),
        (["S.F", "..S"], r"expected one start S, got a second one at row 1, column 2"),
        (["S..", "..."], "expected a flag F, got none in rows 0 to 1, columns 0 to 2"),
        (["S#F", ".##"], r"flag at row 0, column 2 .* out of reach of the start at row 0, column 0"),
        (["S$$F", ".$$$"], r"at most 4 moneys \$.* row 1, column 3"),
    ],
)
def test_a_bad_map_is_told_where(map, message):
    with pytest.raises(ValueError, match=f"map: .*{message}"):
        GridWorld(map)


def test_a_horizon_too_short_for_the_flag_is_refused():
    assert GridWorld(["S..F"], max_steps=3).default_params.max_steps_in_episode == 3
    with pytest.raises(ValueError, match="max_steps: the flag is 3 moves from the start, got 2"):
        GridWorld(["S..F"], max_steps=2)


# the drivers


@settings(max_examples=30, deadline=None)
@given(map=maps().filter(reachable), driver=st.sampled_from(sorted(gridworld.LIKES)), temperature=st.floats(0.2, 2.0))
def test_a_driver_chooses_among_the_moves_there_are(map, driver, temperature):
    env = GridWorld(map)
    probs = np.asarray(gridworld.agent(env, driver, temperature=temperature).probs)
    next_state = tables(env)[0]
    stuck = (next_state < 0).all(1)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    assert (probs[~stuck][next_state[~stuck] < 0] == 0).all()


def best_own_reward(env, driver, num_steps):
    """By trying all walks: what the best walk to the flag earns this driver."""
    next_state, reward, terminal = tables(env)

    def best(s, left):
        if terminal[s]:
            return 0.0
        if left == 0:
            return -np.inf
        earned = []
        for a, t in enumerate(next_state[s]):
            if t >= 0:
                likes = gridworld.LIKES[driver].get(env.cells[t % env.cells.size], 0.0)
                earned.append(reward[s, a] + likes + best(t, left - 1))
        return max(earned)

    return best(int(env.default_params.start), num_steps)


@settings(max_examples=25, deadline=None)
@given(map=maps(max_size=3).filter(reachable), driver=st.sampled_from(sorted(gridworld.LIKES)))
def test_a_driver_followed_greedily_earns_the_most_of_its_own_reward(map, driver):
    env = GridWorld(map)
    actions = greedy(env, gridworld.agent(env, driver, temperature=0.1))
    _, kinds, rewards = walk(env, actions)
    assert kinds[-1] == "F"
    likes = gridworld.LIKES[driver]
    own = sum(rewards) + sum(likes.get(kind, 0.0) for kind in kinds[1:])
    assert own >= best_own_reward(env, driver, 10) - 1e-5


def test_temperature_divides_the_action_values():
    env = GridWorld()
    cool, warm = (np.asarray(gridworld.agent(env, temperature=t).probs, float) for t in (0.5, 1.0))
    start = int(env.default_params.start)
    usable = warm[start] > 0
    log_cool, log_warm = np.log(cool[start][usable]), np.log(warm[start][usable])
    np.testing.assert_allclose(log_cool - log_cool[0], 2 * (log_warm - log_warm[0]), atol=1e-3)
    assert np.ptp(log_warm) > 0.1


@pytest.mark.parametrize("driver", gridworld.LIKES)
def test_a_sampled_driver_arrives_within_the_horizon(driver):
    env = GridWorld()
    next_state, _, terminal = tables(env)
    probs = np.asarray(gridworld.agent(env, driver).probs, float)
    matrix = np.zeros((env.num_states, env.num_states))
    for s, a in itertools.product(range(env.num_states), range(4)):
        if not terminal[s] and next_state[s, a] >= 0:
            matrix[s, next_state[s, a]] += probs[s, a]
    matrix[terminal, terminal] = 1
    here = np.eye(env.num_states)[int(env.default_params.start)]
    valid = here @ np.linalg.matrix_power(matrix, env.default_params.max_steps_in_episode)
    np.testing.assert_allclose(valid.sum(), 1, rtol=1e-4)
    assert valid[terminal].sum() > 0.99


def test_the_two_drivers_take_different_roads_to_the_money_and_the_flag():
    env = GridWorld()
    kinds = {}
    for driver in gridworld.LIKES:
        _, kinds[driver], rewards = walk(env, greedy(env, gridworld.agent(env, driver)))
        assert kinds[driver][-1] == "F"
        assert sum(rewards) == 97
    assert kinds["experienced"].count("H") >= kinds["newbie"].count("H") + 8
    assert kinds["newbie"].count("L") >= kinds["experienced"].count("L") + 8


@pytest.mark.parametrize("driver", gridworld.LIKES)
def test_whatever_the_original_the_best_recourse_fetches_the_money(driver):
    """At λ = 0.1/0.1: R_path pays at most 0.1, so the best of R_goal + 0.1·R_policy must win by more than that."""
    env = GridWorld()
    next_state, reward, terminal = tables(env)
    probs = gridworld.agent(env, driver).probs
    paid = reward + 0.1 * np.asarray(link(probs, 4))
    earned = np.full(env.num_states, -np.inf)
    earned[int(env.default_params.start)] = 0
    best = np.full(2, -np.inf)  # without the money, with it
    for _ in range(env.default_params.max_steps_in_episode):
        moved = np.full(env.num_states, -np.inf)
        for s, a in itertools.product(np.flatnonzero(~terminal & np.isfinite(earned)), range(4)):
            if next_state[s, a] >= 0:
                moved[next_state[s, a]] = max(moved[next_state[s, a]], earned[s] + paid[s, a])
        earned = moved
        best = np.maximum(best, np.where(terminal, earned, -np.inf).reshape(2, -1).max(1))
    assert best[1] > best[0] + 0.1 + 10


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature: expected a number above 0"):
        gridworld.agent(GridWorld(), temperature=temperature)


def test_an_unknown_driver_is_refused():
    with pytest.raises(ValueError, match="driver: expected one of experienced, newbie, got 'robot'"):
        gridworld.task("robot")


def test_the_task_asks_for_the_flag():
    task = gridworld.task("newbie", map=SMALL, max_steps=9)
    assert task.goal is reached
    assert task.horizon == 9
    assert task.num_states == 18
    np.testing.assert_array_equal(task.policy.probs, gridworld.agent(GridWorld(SMALL), "newbie").probs)
    assert gridworld.task(goal=None).goal is None


# bad routes


def check_routes(env, paths):
    """That each is a walk in the world; returns how it ends and what it earns."""
    _next_state, _, terminal = tables(env)
    endings = []
    for symbols, actions in zip(paths.to_lists(), paths.actions_to_lists(), strict=True):
        states, _, rewards = walk(env, actions)
        assert [s % env.cells.size for s in states] == symbols
        assert not terminal[states[:-1]].any()
        assert len(actions) <= env.default_params.max_steps_in_episode
        endings.append((bool(terminal[states[-1]]), sum(rewards)))
    return endings


@settings(max_examples=30, deadline=None)
@given(map=maps().filter(reachable), seed=st.integers(0, 2**32 - 1))
def test_bad_routes_of_any_map_are_walks_that_could_be_better(map, seed):
    env = GridWorld(map, max_steps=17)
    paths = gridworld.bad_paths(env, 12, seed)
    assert len(paths) == 12
    best = trip_optimum(env)
    assert all(not arrived or earned < best for arrived, earned in check_routes(env, paths))
    again = gridworld.bad_paths(env, 12, seed)
    assert (again.to_lists(), again.actions_to_lists()) == (paths.to_lists(), paths.actions_to_lists())


def trip_optimum(env):
    """The most that a walk to the flag within the horizon earns."""
    next_state, reward, terminal = tables(env)
    earned = {int(env.default_params.start): 0.0}
    best = -np.inf
    for _ in range(env.default_params.max_steps_in_episode):
        moved = {}
        for s, value in earned.items():
            for a, t in enumerate(next_state[s]):
                if t >= 0:
                    moved[t] = max(moved.get(t, -np.inf), value + float(reward[s, a]))
        best = max([best, *(value for s, value in moved.items() if terminal[s])])
        earned = {s: value for s, value in moved.items() if not terminal[s]}
    return best


@pytest.mark.parametrize("num", [1, 10, 100])
@pytest.mark.parametrize("seed", [0, 7])
def test_bad_routes_of_the_default_map(num, seed):
    env = GridWorld()
    paths = gridworld.bad_paths(env, num, seed)
    assert len({tuple(actions) for actions in paths.actions_to_lists()}) == num
    assert paths.lengths.min() >= 12
    assert paths.lengths.max() <= 28
    endings = check_routes(env, paths)
    arrived = np.array([arrived for arrived, _ in endings])
    assert max(earned for arrived, earned in endings if arrived) < 97
    if num >= 10:
        missed = np.array([arrived and earned <= 70 for arrived, earned in endings])
        assert 1 <= (~arrived).sum() <= 0.3 * num
        assert missed.mean() >= 0.4
        assert gridworld.bad_paths(env, num, seed + 1).to_lists() != paths.to_lists()


def test_where_there_are_few_bad_routes_they_repeat():
    env = GridWorld(["SF"])
    assert gridworld.bad_paths(env, 3).to_lists() == [[0]] * 3
    with pytest.raises(ValueError, match="num: expected at least 1 path, got 0"):
        gridworld.bad_paths(env, 0)
