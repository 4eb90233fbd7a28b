"""Sequences as a world: its rules, its scores, BL1 on it, and recourse against brute force on tiny instances."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from pprjax_envs.sequence import SequenceEnv, class_probs, log_probs
from pprjax_envs.temperature.baselines import gradient_importance, observed, symbol_changes

import pprjax
from pprjax.goals import class_is
from pprjax.reward import total
from pprjax.scoring import score

V, L = 5, 4
ALL = np.array(list(itertools.product(range(V), repeat=L)), np.int32)
CONFIG = pprjax.Config(iterations=60, num_paths=128, num_best=16, width=32, c_e=0.0)  # of most tests: one compilation


@struct.dataclass
class Votes:
    """Each symbol votes for each class, by its place; the classes share the exponentials of their votes."""

    weights: jax.Array  # float[L, V, C]

    def init(self):
        return jnp.int32(0), jnp.zeros(self.weights.shape[2])

    def step(self, carry, symbol):
        place, votes = carry
        return place + 1, votes + self.weights[place, symbol]

    def log_probs(self, carry):
        return jax.nn.log_softmax(carry[1])


@struct.dataclass
class Chain:
    """P_A that depends on the last symbol and, by its carry, on whether any symbol came twice in a row."""

    logits: jax.Array  # float[2, V + 1, V]

    def init(self):
        return jnp.int32(-1), jnp.int32(0)

    def step(self, carry, state):
        last, doubled = carry
        doubled = doubled | (last == state.symbol).astype(jnp.int32)
        return (state.symbol, doubled), jax.nn.log_softmax(self.logits[doubled, state.symbol])


def instance(seed):
    rng = np.random.default_rng(seed)
    classifier = Votes(jnp.asarray(1.5 * rng.standard_normal((L, V, 2)), jnp.float32))
    policy = Chain(jnp.asarray(1.5 * rng.standard_normal((2, V + 1, V)), jnp.float32))
    env = SequenceEnv(classifier, 1, num_symbols=V, length=L)
    return pprjax.Task(env, policy, goal=class_is(1))


@pytest.mark.parametrize("lambda_path, lambda_policy", [(10.0, 0.1), (3.0, 1.0)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("goal", [class_is(1), pytest.param(None, marks=pytest.mark.slow)], ids=["class", "none"])
def test_recourse_attains_the_brute_force_optimum(goal, seed, lambda_path, lambda_policy):
    task = instance(seed)
    prob = class_probs(task.params.classifier, ALL)[:, 1]
    chosen = ALL[np.argsort(prob)[[0, 120]]]  # far from the goal, and near it
    originals = task.env.paths(chosen)
    config = CONFIG.replace(lambda_path=lambda_path, lambda_policy=lambda_policy)
    optimum = []
    for i in range(len(chosen)):
        scores = score(task, originals[[i] * len(ALL)], task.env.paths(ALL), config)
        worth = total(scores.goal, scores.path, scores.r_policy, lambda_path=lambda_path, lambda_policy=lambda_policy)
        optimum.append(np.where((scores.goal > 0.5) | (goal is None), worth, -np.inf).max())
    found = pprjax.recourse(
        task.replace(goal=goal), originals, config, method="learn", key=jax.random.key(seed), progress=False
    )
    np.testing.assert_allclose(found.reward, optimum, rtol=1e-4)
    assert goal is None or (found.scores.goal > 0.5).all()


@pytest.mark.slow
def test_edited_lanes_find_the_few_symbols_that_must_change():
    num_symbols, length, size = 30, 8, 6
    rng = np.random.default_rng(0)
    classifier = Votes(jnp.asarray(1.5 * rng.standard_normal((length, num_symbols, 2)), jnp.float32))
    policy = Chain(jnp.asarray(rng.standard_normal((2, num_symbols + 1, num_symbols)), jnp.float32))
    task = pprjax.Task(SequenceEnv(classifier, 1, num_symbols=num_symbols, length=length), policy, goal=class_is(1))
    drawn = rng.integers(0, num_symbols, (60 * size, length))
    originals = task.env.paths(drawn[np.argsort(class_probs(classifier, drawn)[:, 1])[:size]])
    plain = pprjax.Config(
        lambda_path=10.0, iterations=40, num_paths=64, num_best=8, updates=2, batch_size=64, width=16, c_e=0.0
    )
    found = [
        pprjax.recourse(task, originals, c, method="learn", key=jax.random.key(0), progress=False)
        for c in (plain, plain.replace(edited_lanes=True))
    ]
    without, with_edits = (f.scores.distance for f in found)
    assert (found[1].scores.goal > 0.5).all()
    assert with_edits.mean() < without.mean() - 1
    assert found[1].reward.mean() > found[0].reward.mean() + 0.5


def test_what_a_rollout_adds_up_is_what_score_says():
    task = instance(3)
    originals = task.env.paths(ALL[[7, 77, 333]])
    config = CONFIG.replace(c_e=1.0)
    found = pprjax.recourse(task, originals, config, method="learn", key=jax.random.key(0), progress=False)
    again = score(task, originals, found.paths)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), found.scores, again)


def test_a_path_is_the_start_and_its_symbols_and_pays_at_its_end():
    task = instance(4)
    env, params, key = task.env, task.params, jax.random.key(0)
    state, rewards = env.reset_env(key, params)[1], []
    assert int(env.symbol(state, params)) == V
    for t, action in enumerate([3, 0, 3, 1]):
        assert not env.reached_goal(state, params)
        _, state, reward, terminated, _ = env.step_env(key, state, action, params)
        rewards.append(float(reward))
        assert int(env.symbol(state, params)) == action
        assert bool(terminated) == (t == L - 1)
    prob = float(class_probs(params.classifier, np.array([[3, 0, 3, 1]]))[0, 1])
    np.testing.assert_allclose(rewards, [0, 0, 0, prob], rtol=1e-6)
    assert bool(env.reached_goal(state, params)) == (prob > 0.5)
    _, after, reward, terminated, _ = env.step_env(key, state, 2, params)
    assert (float(reward), bool(terminated), int(after.symbol)) == (0.0, True, 1)
    np.testing.assert_array_equal(after.class_probs, state.class_probs)


@pytest.mark.parametrize(("length", "end", "fewest"), [(4, None, 4), (4, 0, 1), ((2, 4), 0, 3)])
def test_how_many_steps_are_left_at_least_is_told_at_each(length, end, fewest):
    env = SequenceEnv(Votes(jnp.zeros((L, V, 2))), 1, num_symbols=V, length=length, end=end)
    params, key = env.default_params, jax.random.key(0)
    state = env.reset(key, params)[1]
    assert int(env.steps_to_go(state, params)) == fewest
    for left in range(fewest - 1, -1, -1):
        last = end if end is not None and not left else 1
        state = env.step_env(key, state, last, params)[1]
        assert int(env.steps_to_go(state, params)) == left


def test_log_probs_sum_to_one_over_all_sequences():
    task = instance(5)
    total_log = np.asarray(log_probs(task.policy, ALL, V)).sum(1)
    np.testing.assert_allclose(np.exp(total_log).sum(), 1.0, rtol=1e-4)


def test_class_is_reads_the_class_of_the_final_state():
    task = instance(6)
    state = task.reset(jax.random.key(0))
    for p in (0.2, 0.5, 0.51):
        ended = state.replace(class_probs=jnp.array([1 - p, p], jnp.float32))
        outcome = task.outcome(ended, jnp.bool_(True), jnp.float32(0.0))
        assert bool(class_is(1)(outcome)) == (p > 0.5)
        assert bool(class_is(0)(outcome)) == (p < 0.5)


def test_paths_and_sequences_are_inverse():
    env = instance(0).env
    paths = env.paths(ALL[:9])
    assert paths.to_lists()[3] == [V, *ALL[3]]
    np.testing.assert_array_equal(env.sequences(paths), ALL[:9])


@pytest.mark.parametrize(
    "sequences, message",
    [([[0, 1, 2]], r"sequences\[0\]: expected 4 symbols"), ([ALL[0], [0, 1, V, 2]], r"sequences\[1\]\[2\].*got 5")],
)
def test_paths_name_the_sequence_at_fault(sequences, message):
    with pytest.raises(ValueError, match=message):
        instance(0).env.paths(sequences)


def test_sequences_name_the_path_that_is_cut():
    with pytest.raises(ValueError, match=r"paths\[1\]: expected 5 symbols"):
        instance(0).env.sequences(pprjax.Paths.from_lists([[V, 0, 0, 0, 0], [V, 1]]))


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (dict(classifier=3), TypeError, "classifier.*int"),
        (dict(wanted=2), ValueError, r"wanted.*\[0, 2\)"),
        (dict(length=0), ValueError, "length.*at least 1"),
        (dict(num_symbols=0), ValueError, "num_symbols.*at least 1"),
    ],
)
def test_says_what_is_wrong(changes, error, message):
    classifier = Votes(jnp.zeros((L, V, 2)))
    arguments = dict(classifier=classifier, wanted=1, num_symbols=V, length=L) | changes
    with pytest.raises(error, match=message):
        SequenceEnv(arguments.pop("classifier"), arguments.pop("wanted"), **arguments)


def test_bl1_is_the_best_of_all_edits_with_at_most_k_changes():
    task = instance(8)
    rng = np.random.default_rng(0)
    allowed = rng.random((L, V)) < 0.6
    originals = ALL[[5, 99, 311]]
    found = symbol_changes(task.params.classifier, 1, originals, allowed, max_changes=L, width=V**L)
    prob = np.asarray(class_probs(task.params.classifier, ALL))[:, 1]
    for i, original in enumerate(originals):
        usable = (allowed[np.arange(L), ALL] | (original == ALL)).all(1)
        for k in range(L + 1):
            within = usable & ((original != ALL).sum(1) <= k)
            np.testing.assert_allclose(found.prob[i, k], prob[within].max(), rtol=1e-5)
            assert (found.sequences[i, k] != original).sum() <= k
            changed = found.sequences[i, k] != original
            assert allowed[np.arange(L)[changed], found.sequences[i, k][changed]].all()


def test_observed_is_what_occurs():
    table = observed([[0, 1, 1, 4], [0, 2, 1, 4]], V)
    np.testing.assert_array_equal(np.argwhere(table), [[0, 0], [1, 1], [1, 2], [2, 1], [3, 4]])


@pytest.mark.parametrize("changes, message", [(dict(max_changes=5), "max_changes.*4"), (dict(width=0), "width")])
def test_bl1_says_what_is_out_of_range(changes, message):
    arguments = dict(max_changes=2, width=4) | changes
    with pytest.raises(ValueError, match=message):
        symbol_changes(instance(0).params.classifier, 1, ALL[:2], np.ones((L, V), bool), **arguments)


def test_gradient_importance_is_nowhere_where_the_verdict_does_not_look():
    from pprjax_envs.lstm import LSTMClassifier

    blank = LSTMClassifier(params=None, features=jnp.eye(V + 1), width=6, num_classes=2)
    params = blank.network.init(jax.random.key(0), blank.init(), blank.features[0])
    deaf = jax.tree.map(jnp.zeros_like, params)
    some = gradient_importance(blank.replace(params=params), ALL[:3])
    assert some.shape == (3, L)
    assert (some > 0).all()
    np.testing.assert_array_equal(gradient_importance(blank.replace(params=deaf), ALL[:3]), 0)
