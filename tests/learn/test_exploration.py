"""Exploration: the schedule, the bonus and the counts by formula, the lanes by their shares and frequencies."""

import collections
import types
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from pprjax import TabularMDP
from pprjax.config import Config
from pprjax.learn import exploration
from pprjax.learn.exploration import OPEN
from pprjax.paths import PAD
from pprjax.policy import TablePolicy
from pprjax.rollout import Original, rollout
from pprjax.task import Task

S, A, T = 4, 4, 5
NEXT_STATE = np.array([[1, -1, 2, 0], [0, 2, 1, -1], [3, 0, 1, 2], [0, 0, 0, 0]])
PROBS = np.array([[0.5, 0.2, 0.1, 0.2], [0.1, 0.6, 0.2, 0.1], [0.25] * 4, [0.25] * 4])
TASK = Task(
    TabularMDP(NEXT_STATE, np.zeros((S, A)), np.arange(S) == 3, 0, T),
    TablePolicy(jnp.asarray(PROBS, jnp.float32)),
)
ORIGINAL = Original(
    symbols=jnp.array([0, 1, 2, 1, PAD, PAD]),
    length=jnp.int32(4),
    actions=jnp.array([0, 1, 2, PAD, PAD]),
    followed=jnp.bool_(True),
    r_goal=jnp.zeros(()),
    goal=None,
)
BEST = jnp.array([2, 2, 0, 3, PAD])
B = 64
HABIT, NEAR_ORIGINAL, NEAR_BEST, GREEDY = slice(0, 16), slice(16, 24), slice(24, 32), slice(32, 64)


@partial(jax.jit, static_argnums=0)
def draw(config, seed, eps, iteration):
    return exploration.behaviours(config, jax.random.key(seed), ORIGINAL.actions, BEST, eps, iteration)


def lanes_of(seed=0, eps=0.25, iteration=0, **changes):
    return jax.tree.map(np.asarray, draw(Config(num_paths=B, **changes), seed, eps, iteration))


def test_epsilon_falls_linearly_over_the_first_half():
    config = Config(iterations=40, epsilon_start=0.9, epsilon_end=0.1)
    eps = [float(exploration.epsilon(config, jnp.int32(i))) for i in (0, 5, 10, 20, 21, 39)]
    assert eps == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1, 0.1], abs=1e-6)


def test_bonus_is_ucb1_with_the_untried_first():
    counts = np.array([[3, 1, 0], [10, 2, 4]])
    with np.errstate(divide="ignore"):
        formula = 0.7 * np.sqrt(np.log(20) / counts)
    bonus = np.asarray(exploration.bonus(jnp.asarray(counts), 0.7))
    tried = counts > 0
    assert bonus[tried] == pytest.approx(formula[tried], rel=1e-6)
    assert bonus[~tried] > 1e6 > bonus[tried].max()
    assert (np.asarray(exploration.bonus(jnp.asarray(counts), 0.0)) == 0).all()
    fresh = np.asarray(exploration.bonus(jnp.zeros((2, 3), jnp.int32), 1.0))
    assert (fresh == fresh[0, 0]).all()  # nothing is preferred before anything was tried


def test_counts_are_those_of_the_visits():
    config = Config(num_paths=B)

    @jax.jit
    def sample(lanes, start):
        def one(lane):
            return rollout(TASK, ORIGINAL, lane, config, jax.random.key(0), bucket=partial(exploration.row_of, TASK))

        lanes = jax.vmap(one)(lanes)
        return lanes, exploration.count(start, lanes)

    before = np.arange(S * A).reshape(S, A)
    lanes, after = jax.tree.map(np.asarray, sample(lanes_of(), jnp.asarray(before)))
    visits = np.zeros((S, A), int)
    for actions in lanes.actions:
        state = 0
        for action in actions[actions != PAD]:
            visits[state, action] += 1
            state = NEXT_STATE[state, action]
    assert (after - before == visits).all()
    assert visits.sum() == lanes.num_actions.sum() < B * T  # some paths ended early
    assert (visits[NEXT_STATE < 0] == 0).all()


def test_states_without_numbers_are_hashed():
    env = types.SimpleNamespace(
        symbol=lambda state, params: jnp.int32(0),
        observe=lambda key, state, action, params: state,
        reset_env=lambda key, params: (jnp.zeros(11), jnp.zeros(11)),
        step_env=lambda key, state, action, params: (state, state, 0.0, True, {}),
        num_actions=2,
        default_params=None,
    )

    class Even:
        def init(self):
            return ()

        def step(self, carry, state):
            return carry, jnp.log(jnp.full(2, 0.5))

    task = Task(env, Even(), params=(), horizon=3)
    assert exploration.no_counts(task).shape == (exploration.HASH_ROWS, 2)
    corners = (np.arange(2000)[:, None] >> np.arange(11)) & 1  # as alike as observations can be
    rows = np.asarray(jax.vmap(partial(exploration.row_of, task))(jnp.asarray(corners, jnp.float32)))
    assert ((rows >= 0) & (rows < exploration.HASH_ROWS)).all()
    m = exploration.HASH_ROWS
    random = m * (1 - (1 - 1 / m) ** 2000)  # distinct rows that a random function would give: 1883
    assert len(np.unique(rows)) > 0.95 * random
    again = jax.vmap(partial(exploration.row_of, task))(jnp.asarray(corners, jnp.float32))
    assert (rows == np.asarray(again)).all()


@pytest.mark.parametrize("part, known", [(NEAR_ORIGINAL, ORIGINAL.actions), (NEAR_BEST, BEST)])
def test_an_eighth_follows_a_known_path_up_to_a_cut(part, known):
    known = np.asarray(known)
    length = int((known != PAD).sum())
    cuts = []
    for seed in range(20):
        lanes = lanes_of(seed)
        assert not lanes.explore[part].any()  # after the cut they follow Q
        for forced in lanes.forced[part]:
            cut = int((forced != PAD).sum())
            assert forced.tolist() == [*known[:cut], *[PAD] * (T - cut)]
            cuts.append(cut)
    assert scipy.stats.chisquare(np.bincount(cuts, minlength=length + 1)).pvalue > 1e-3  # 0 … all, evenly


def test_a_quarter_follows_q_and_then_samples_the_agent():
    starts = []
    for seed in range(10):
        lanes = lanes_of(seed)
        assert (lanes.forced[HABIT] == PAD).all()
        assert lanes.from_policy[HABIT].all()
        explores = lanes.explore[HABIT]
        assert (explores[:, 1:] >= explores[:, :-1]).all()  # once P_A, always P_A
        starts += (~explores).sum(1).tolist()
    assert scipy.stats.chisquare(np.bincount(starts, minlength=T)).pvalue > 1e-3


@pytest.mark.parametrize("mixed", [True, False])
def test_all_others_are_epsilon_greedy(mixed):
    part = GREEDY if mixed else slice(0, B)
    none, every = lanes_of(eps=0.0, mixed_lanes=mixed), lanes_of(eps=1.0, mixed_lanes=mixed)
    assert not none.explore[part].any()
    assert every.explore[part].all()
    some = [lanes_of(seed, mixed_lanes=mixed) for seed in range(10)]
    assert all((lanes.forced[part] == PAD).all() and not lanes.from_policy[part].any() for lanes in some)
    explore = np.concatenate([lanes.explore[part].ravel() for lanes in some])
    assert abs(explore.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / explore.size)
    uniform = np.concatenate([lanes.uniform[part].ravel() for lanes in some])
    assert (uniform >= 0).all() and (uniform < 1).all()
    assert scipy.stats.kstest(uniform[explore], "uniform").pvalue > 1e-3  # that ε was low says nothing of the action


def edits_of(path):
    """All results of one edit of a list: each step open, an open one before each, each gone; cut or filled to T."""
    n = len(path)
    replaced = [[*path[:i], OPEN, *path[i + 1 :]] for i in range(n)]
    inserted = [[*path[:i], OPEN, *path[i:]] for i in range(n)]
    deleted = [[*path[:i], *path[i + 1 :]] for i in range(n)]
    return replaced + inserted + deleted


def padded(path):
    return tuple([*path, *[PAD] * T][:T])


IN_TURN, EDITED = slice(32, 48), slice(48, 56)


def test_edited_lanes_follow_the_best_path_with_an_edit_or_two():
    part, path = EDITED, [int(a) for a in BEST if a != PAD]
    once = [padded(edit) for edit in edits_of(path)]
    twice = [padded(edit) for first in edits_of(path) for edit in edits_of(first)]
    seen = collections.Counter()
    for seed in range(300):
        lanes = lanes_of(seed, edited_lanes=True)
        marked = np.where(lanes.explore[part], OPEN, lanes.forced[part])
        assert (lanes.forced[part][lanes.explore[part]] == PAD).all()
        seen.update(map(tuple, marked.tolist()))
    assert set(once) <= set(seen) <= {*once, *twice}
    # half have one edit, each as likely; the others two, of which the second is as likely among those of the first
    chance = collections.Counter()
    for first in edits_of(path):
        chance[padded(first)] += 1 / 2 / len(edits_of(path))
        for second in edits_of(first):
            chance[padded(second)] += 1 / 2 / len(edits_of(path)) / len(edits_of(first))
    total = sum(seen.values())
    expected = np.array([chance[edit] * total for edit in chance])
    observed = np.array([seen[edit] for edit in chance])
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-3


def test_edited_lanes_try_the_edits_of_the_original_in_turn():
    path, num_actions = [int(a) for a in ORIGINAL.actions if a != PAD], 20
    seen, deleted = collections.Counter(), []
    for iteration in range(10):
        lanes = lanes_of(iteration, iteration=iteration, edited_lanes=True)
        marked = np.where(lanes.explore[IN_TURN], OPEN, lanes.forced[IN_TURN])
        assert (lanes.explore[IN_TURN].sum(1) <= 1).all()
        for edit, which in zip(map(tuple, marked.tolist()), lanes.uniform[IN_TURN][:, 0], strict=True):
            if OPEN in edit:
                seen[edit, int(which * num_actions)] += 1
            else:
                deleted.append(edit)
        assert not lanes.from_policy[IN_TURN].any()
    once = [padded(edit) for edit in edits_of(path)]
    assert set(deleted) == {edit for edit in once if OPEN not in edit}
    wanted = {(edit, action) for edit in once if OPEN in edit for action in range(num_actions)}
    assert set(seen) <= wanted
    tries = sum(seen.values())
    assert tries == pytest.approx(160 * 15 / 16, abs=2)
    drawn = len(wanted) * (1 - (1 - 1 / len(wanted)) ** tries)  # different ones among as many drawn at random
    assert len(seen) > 1.2 * drawn
    far = lanes_of(iteration=10**6, edited_lanes=True)  # the sequence does not end
    assert len(np.unique(far.uniform[IN_TURN][:, 0])) == 16


def test_lanes_with_a_path_of_their_own_all_edit_that():
    own, both = np.stack([BEST, ORIGINAL.actions])[np.arange(64) % 2], slice(32, 56)
    near = {
        tuple(path): {padded(edit) for first in edits_of(short) for edit in (first, *edits_of(first))}
        for path in own[:2].tolist()
        for short in [[a for a in path if a != PAD]]
    }
    config = Config(num_paths=64, edited_lanes=True)
    for seed in range(20):
        lanes = exploration.behaviours(config, jax.random.key(seed), ORIGINAL.actions, jnp.asarray(own), 0.3, seed)
        marked = np.where(lanes.explore[both], OPEN, lanes.forced[both])
        for edit, path in zip(marked.tolist(), own[both].tolist(), strict=True):
            assert tuple(edit) in near[tuple(path)]
        follows = np.asarray(lanes.forced)[24:32]  # an eighth follow theirs up to a cut
        assert all(row[t] in (PAD, path[t]) for row, path in zip(follows, own[24:32], strict=True) for t in range(T))


def test_edited_lanes_leave_the_others_as_they_are():
    plain, edits = lanes_of(), lanes_of(edited_lanes=True)
    others = np.r_[0:32, 56:64]
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(edits), strict=True):
        assert (one[others] == other[others]).all()
    share = np.mean([lanes_of(seed, edited_lanes=True).from_policy[EDITED].mean() for seed in range(100)])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(100 * 8)  # half explore as the agent would, half evenly


def test_epsilon_from_policy_concerns_all_lanes():
    assert lanes_of(epsilon_from="policy").from_policy.all()
    assert lanes_of(epsilon_from="policy", edited_lanes=True).from_policy.all()


@pytest.mark.parametrize("source", ["policy", "uniform"])
def test_exploring_actions_have_the_frequencies_of_their_source(source):
    config = Config(num_paths=4096, mixed_lanes=False, epsilon_from=source)

    @jax.jit
    def sample(key):
        lanes = exploration.behaviours(config, key, ORIGINAL.actions, BEST, 1.0, 0)
        return jax.vmap(lambda lane: rollout(TASK, ORIGINAL, lane, config, key).actions)(lanes)

    actions = np.asarray(sample(jax.random.key(3)))
    weights = (PROBS if source == "policy" else np.ones((S, A))) * (NEXT_STATE >= 0)
    second = actions[actions[:, 0] == 0, 1]  # from state 1
    for state, taken in ((0, actions[:, 0]), (1, second)):
        seen = np.bincount(taken, minlength=A)
        valid = NEXT_STATE[state] >= 0
        assert (seen[~valid] == 0).all()
        expected = weights[state, valid] / weights[state].sum(dtype=float) * seen.sum()
        assert scipy.stats.chisquare(seen[valid], expected).pvalue > 1e-3
