"""Ragged tables say what dense ones do, in less memory, and worlds of them answer alike."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pprjax
from pprjax import TabularMDP, limits
from pprjax.declare import precedence
from pprjax.learn import exploration, learner
from pprjax.ragged import Ragged, entry_of, every, repeated, row_of, tiled
from pprjax.rollout import trace

LENGTHS = [3, 0, 1, 4, 2, 0]
FIRST = np.append(0, np.cumsum(LENGTHS))
S, A, E, T = len(LENGTHS), max(LENGTHS), sum(LENGTHS), 5


def dense_of(entries, fill):
    """The same table with a number for each state and action."""
    table = np.full((S, A), fill, np.asarray(entries).dtype)
    for s, (low, high) in enumerate(itertools.pairwise(FIRST)):
        table[s, : high - low] = entries[low:high]
    return table


def rows_of(table, size, fill):
    return np.stack([np.asarray(row_of(table, jnp.int32(s), fill)) for s in range(size)])


def tasks(seed, constraints=None, goal=pprjax.reached):
    """A random world, dense and ragged."""
    rng = np.random.default_rng(seed)
    target = rng.integers(-1, S, E)
    target[:3] = [3, 4, 2]  # the start has somewhere to go
    reward, terminal = rng.integers(-4, 5, E) / 4, np.array([False, True, False, False, False, True])
    probs = np.concatenate([rng.dirichlet(np.ones(n)) for n in LENGTHS if n])
    table = dense_of(probs, 0.0)
    table[np.array(LENGTHS) == 0] = 1 / A
    options = dict(terminal=terminal, start=0, max_steps=T)
    worlds = (
        TabularMDP(dense_of(target, -1), dense_of(reward, 0.0), **options),
        TabularMDP(Ragged.of(FIRST, target), Ragged.of(FIRST, reward), **options),
    )
    agents = jnp.asarray(table), jax.tree.map(jnp.asarray, Ragged.of(FIRST, probs))
    return [
        pprjax.Task(world, pprjax.TablePolicy(agent), goal=goal, constraints=constraints)
        for world, agent in zip(worlds, agents, strict=True)
    ]


ORIGINALS = pprjax.Paths.from_lists([[0, 3], [0, 4], [0]])


def test_rows_and_entries_are_those_of_the_dense_table():
    entries = np.arange(1, E + 1)
    table, dense = Ragged.of(FIRST, entries), dense_of(entries, -7)
    assert table.shape == dense.shape == (S, A)
    np.testing.assert_array_equal(rows_of(table, S, -7), dense)
    found = [[int(entry_of(table, jnp.int32(s), a, -7)) for a in range(A)] for s in range(S)]
    np.testing.assert_array_equal(found, dense)
    np.testing.assert_array_equal(rows_of(repeated(table, 3), 3 * S, -7), np.repeat(dense, 3, axis=0))
    np.testing.assert_array_equal(rows_of(repeated(repeated(table, 2), 3), 6 * S, -7), np.repeat(dense, 6, axis=0))
    np.testing.assert_array_equal(rows_of(every(repeated(table, 6), 3), 2 * S, -7), np.repeat(dense, 2, axis=0))
    np.testing.assert_array_equal(rows_of(tiled(table, 3), 3 * S, -7), np.tile(dense, (3, 1)))
    np.testing.assert_array_equal(
        table.sums(empty=-7), np.where(np.array(LENGTHS) > 0, np.maximum(dense, 0).sum(1), -7)
    )
    np.testing.assert_array_equal(repeated(table, 2).sums(empty=0), np.repeat(table.sums(empty=0), 2))
    assert [table.place(i) for i in range(E)] == [[s, a] for s, a in np.argwhere(dense > 0).tolist()]


@pytest.mark.parametrize("times", [1, 3])
def test_each_row_has_cells_of_its_own(times):
    table = repeated(Ragged.of(FIRST, np.zeros(E)), times)
    rows = [
        range(int(table.cell(jnp.int32(s))), int(table.cell(jnp.int32(s))) + LENGTHS[s // times])
        for s in range(S * times)
    ]
    cells = np.concatenate([list(cells) for cells in rows]).astype(int)
    assert len(np.unique(cells)) == len(cells) == E * times
    owner = np.asarray(table.states)
    assert len(owner) == table.num_cells
    for s, own in enumerate(rows):
        assert (owner[list(own)] == s).all()
        assert int(table.cell(jnp.int32(s))) + A <= table.num_cells


def test_what_is_no_table_is_told():
    for first in ([0, 2], [1, 3], [0, 4, 3], [0.0, 3.0], [3]):
        with pytest.raises(
            pprjax.UserError, match="first: expected S \\+ 1 whole numbers that rise from 0 to the 3 values"
        ):
            Ragged.of(np.array(first), np.zeros(3))
    with pytest.raises(pprjax.UserError, match="to the 0 values"):
        Ragged.of(np.zeros(3, int), np.zeros(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(next_state=Ragged.of([0, 1, 2], [0, 2])),
            r"next_state.values\[1\]: expected an integer in \[-1, 1\], got 2",
        ),
        (dict(next_state=Ragged.of([0, 1, 2], [0, 1.5])), r"next_state.values: expected integers, got float64"),
        (dict(next_state=Ragged.of([0, 1, 2], [0, 1]).repeated(2)), r"next_state: expected .* got 2 rows for each"),
        (dict(reward=np.zeros((2, 1))), "reward: expected a pprjax.Ragged whose rows are those of next_state"),
        (dict(reward=Ragged.of([0, 2, 2], [0.0, 1.0])), "reward: expected a pprjax.Ragged whose rows are those"),
        (dict(reward=Ragged.of([0, 1, 2], [0.0, np.nan])), r"reward.values\[1\]: expected a finite number, got nan"),
        (dict(next_state=np.zeros((2, 1), int)), r"reward: expected shape \(2, 1\)"),
    ],
)
def test_what_a_ragged_world_lacks_is_told(changes, message):
    tables = dict(next_state=Ragged.of([0, 1, 2], [0, 1]), reward=Ragged.of([0, 1, 2], [0.0, 1.0])) | changes
    with pytest.raises(pprjax.UserError, match=message):
        TabularMDP(**tables, terminal=[False, False])


def test_a_ragged_agent_that_is_none_is_told():
    world = TabularMDP(Ragged.of([0, 2, 2, 3], [1, 2, 0]), Ragged.of([0, 2, 2, 3], np.zeros(3)), [False, True, False])
    for probs, message in (
        ([0.5, -0.5, 1.0], r"policy.probs\[0, 1\]: expected a probability, got -0.5"),
        ([0.5, 0.5, 0.5], r"policy.probs\[2\]: expected a row that sums to 1, got 0.5"),
    ):
        with pytest.raises(pprjax.UserError, match=message):
            pprjax.Task(world, pprjax.TablePolicy(Ragged.of([0, 2, 2, 3], probs)))
    with pytest.raises(pprjax.UserError, match=r"policy.probs: expected shape \(3, 2\), got \(2, 2\)"):
        pprjax.Task(world, pprjax.TablePolicy(Ragged.of([0, 2, 3], [0.5, 0.5, 1.0])))


@pytest.mark.parametrize("seed", range(3))
def test_a_ragged_world_is_the_dense_one(seed):
    dense, ragged = tasks(seed)

    @jax.jit
    def told(task):
        states = jax.vmap(lambda i: task.env.state_from_id(i, task.params))(jnp.arange(S))
        step = jax.vmap(lambda s, a: task.step(jax.random.key(0), s, a), (None, 0))
        after = jax.vmap(step, (0, None))(states, jnp.arange(A))
        log_probs = jax.vmap(lambda s: task.log_probs((), s)[1])(states)
        habits = [
            jax.vmap(lambda s, x, h=h: task.habits(s, x, h))(
                states,
                log_probs,
            )
            for h in ("regret", "link")
        ]
        return after, jax.vmap(task.available)(states), log_probs, habits

    one, other = told(dense), told(ragged)
    acts = np.array(LENGTHS) > 0  # elsewhere nothing is ever done, whatever P_A says
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(a)[acts], np.asarray(b)[acts])
    np.testing.assert_array_equal(one[1], other[1])


BOUND = pprjax.Constraints(rules=[precedence(4, 2)], forbidden_states=[5])


@pytest.mark.parametrize(
    ("method", "constraints"),
    [
        ("exact", None),
        ("exact", BOUND),
        pytest.param("learn", None, marks=pytest.mark.slow),
        pytest.param("search", BOUND, marks=pytest.mark.slow),
        pytest.param("search", None, marks=pytest.mark.slow),
        pytest.param("learn", BOUND, marks=pytest.mark.slow),
    ],
)
def test_answers_are_the_same_bits(method, constraints):
    config = pprjax.Config(iterations=6, num_paths=16, num_best=4, width=8, updates=2, batch_size=16, lambda_path=0.5)
    options = dict(method=method, key=jax.random.key(0), progress=False)
    for seed in (0, 1):
        one, other = (pprjax.recourse(task, ORIGINALS, config, **options) for task in tasks(seed, constraints))
        assert one.status.tolist() == other.status.tolist()
        for a, b in zip(
            jax.tree.leaves((one.paths, one.reward)), jax.tree.leaves((other.paths, other.reward)), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_search_proves_in_a_ragged_world_what_it_proves_in_a_dense_one():
    config = pprjax.Config(lambda_path=0.5)
    dense, ragged = tasks(2, goal=pprjax.at_least(0.25))
    one, other = (pprjax.recourse(task, ORIGINALS, config, method="search") for task in (dense, ragged))
    np.testing.assert_array_equal(one.bound, other.bound)
    assert (one.gap == 0).all()


def test_a_hub_takes_what_its_steps_take():
    """One of 800 pages leads to all others and they lead back: 640,000 pairs, 1,600 steps."""
    size = 800
    first = np.append([0, size - 1], size - 1 + np.arange(1, size))
    target = np.append(np.arange(1, size), np.zeros(size - 1, int))
    probs = np.append(np.full(size - 1, 1 / (size - 1)), np.ones(size - 1))
    terminal = np.arange(size) == size - 1
    world = TabularMDP(Ragged.of(first, target), Ragged.of(first, np.zeros(len(target))), terminal, max_steps=3)
    agent = pprjax.TablePolicy(jax.tree.map(jnp.asarray, Ragged.of(first, probs)))
    task = pprjax.Task(world, agent, goal=pprjax.reached)
    assert world.num_actions == size - 1
    assert sum(np.asarray(x).nbytes for x in jax.tree.leaves(task)) < 100 * size
    assert exploration.no_counts(task).size < 4 * size
    found = pprjax.recourse(task, pprjax.Paths.from_lists([[0, 7, 0, 8]]), method="search", calls=20_000)
    assert found.paths.to_lists() == [[0, 7, 0, size - 1]]
    assert found.status.tolist() == ["reached_goal"]


def test_a_table_that_is_too_large_for_a_certificate_is_told_before_it_is_made(monkeypatch):
    _, ragged = tasks(0)
    for most, times in ((S, 1), (S * A, T + 1)):
        monkeypatch.setattr(limits, "MAX_EDGES", most)
        with pytest.raises(limits.TooLargeError, match=rf"{A} actions lead in \d states, at {times} times"):
            pprjax.exact(ragged, ORIGINALS, pprjax.Config())
        assert set(pprjax.recourse(ragged, ORIGINALS).method) == {"search"}


def test_a_learner_keeps_no_row_of_actions_for_each_step():
    """They are asked again where they are needed: the same bits, see above."""
    config = pprjax.Config(iterations=2, num_paths=8, num_best=2, width=4, updates=1, batch_size=4, memory=3)
    sizes, counts = [], []
    for task in tasks(0):
        original = trace(task, jnp.array([0, 3]), jnp.int32(2), jax.random.key(0))
        state = jax.eval_shape(
            lambda task=task, original=original: learner.init(task, original, config, jax.random.key(0))
        )
        sizes.append({leaf.shape for leaf in jax.tree.leaves((state.best_replay, state.best))})
        counts.append(state.counts.shape)
    assert counts == [(S, A), (E + A,)]
    dense, ragged = sizes
    assert {(6, T + 1, A), (T + 1, A)} <= dense
    assert not any(shape[-1:] == (A,) for shape in ragged)
