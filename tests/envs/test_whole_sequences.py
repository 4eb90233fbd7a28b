"""Sequences of any length up to one, judged symbol by symbol or only whole: against every sequence there is."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from pprjax_envs import SequenceEnv
from pprjax_envs.sequence.asked import TOGETHER, asked_probs
from rapidfuzz.distance import Levenshtein
from search_worlds import Chain, searched

import pprjax
from pprjax import declare
from pprjax.goals import class_is
from pprjax.paths import PAD

V, L, END = 4, 3, 1  # symbols 0, 2 and 3, and an end
ALL = [row for n in range(L + 1) for row in itertools.product([0, 2, 3], repeat=n)]
CONFIG = pprjax.Config(lambda_policy=0.3)
RULES = (declare.chain_response(V, 2), declare.not_succession(3, 0))  # the first is 2, and no 0 follows a 3


@struct.dataclass
class Sums:
    """Symbols vote by their place, and the last of them does: a classifier."""

    weights: jax.Array  # float[2, L + 1, V]

    def init(self):
        return jnp.float32(0.0), jnp.int32(0), jnp.int32(END)

    def step(self, carry, symbol):
        votes, place, _ = carry
        return votes + self.weights[0, place, symbol], place + 1, symbol

    def log_probs(self, carry):
        logit = carry[0] + self.weights[1, 0, carry[2]]
        return jax.nn.log_softmax(jnp.stack([-logit, logit]))


@struct.dataclass
class Backwards:
    """Symbols vote by how far they are from the end: a judge."""

    weights: jax.Array  # float[2, L + 1, V]

    def probs(self, symbols, length):
        votes = self.weights[0, length - 1 - jnp.arange(L), symbols]
        logit = jnp.where(symbols == PAD, 0.0, votes).sum() + self.weights[1, length, 0]
        return jax.nn.softmax(jnp.stack([-logit, logit]))


def instance(judge, seed, rules=()):
    rng = np.random.default_rng(seed)
    weights = jnp.asarray(1.5 * rng.standard_normal((2, L + 1, V)), jnp.float32)
    agent = Chain(jnp.asarray(1.5 * rng.standard_normal((V + 1, V + 1, V)), jnp.float32))
    env = SequenceEnv(judge(weights), 1, num_symbols=V, length=L, end=END)
    return pprjax.Task(env, agent, goal=class_is(1), constraints=pprjax.Constraints(rules=rules))


def opinion(task, row):
    """The probability of class 1, in plain Python."""
    judge, w = task.params.classifier, np.asarray(jax.tree.leaves(task.params.classifier)[0], float)
    if isinstance(judge, Sums):
        logit = sum(w[0, i, s] for i, s in enumerate(row)) + w[1, 0, row[-1] if row else END]
    else:
        logit = sum(w[0, len(row) - 1 - i, s] for i, s in enumerate(row)) + w[1, len(row), 0]
    return 1 / (1 + np.exp(-2 * logit))


def value(task, row):
    """v of a sequence; -inf where it is taken for class 0 or breaks a rule."""
    prob = opinion(task, row)
    broken = bool(task.constraints) and (row[:1] != (2,) or any(a == 3 and 0 in row[i:] for i, a in enumerate(row)))
    logits, before, regrets = np.asarray(task.policy.logits, float), (V, V), 0.0
    for i, symbol in enumerate((*row, END)):
        here = logits[before]
        regrets += here[symbol] - (here.max() if i < L else here[END])  # after L symbols there is only the end
        before = before[1], symbol
    return -np.inf if prob <= 0.5 or broken else prob + CONFIG.lambda_policy * regrets


@pytest.mark.parametrize(
    ("judge", "rules"),
    [
        pytest.param(Sums, (), id="Sums-free", marks=pytest.mark.slow),
        pytest.param(Sums, RULES, id="Sums-ruled", marks=pytest.mark.slow),
        pytest.param(Backwards, (), id="Backwards-free", marks=pytest.mark.slow),
        pytest.param(Backwards, RULES, id="Backwards-ruled"),
    ],
)
def test_every_number_of_edits_is_right_and_proved(judge, rules):
    answered = 0
    for seed in range(3):
        task = instance(judge, seed, rules)
        originals = [ALL[i] for i in np.random.default_rng(seed).integers(0, len(ALL), 3)]
        found = searched(task, originals, CONFIG, calls=10_000, width=2)
        values = np.array([value(task, row) for row in ALL])
        for i, original in enumerate(originals):
            edits = np.array([Levenshtein.distance(original, row) for row in ALL])
            truth = np.array([values[edits <= e].max(initial=-np.inf) for e in range(L + 1)])
            np.testing.assert_allclose(np.maximum.accumulate(found.best.value[i]), truth, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found.limit[i], truth, rtol=1e-4, atol=1e-4)
            for e in np.flatnonzero(np.isfinite(found.best.value[i])):
                symbols = found.best.symbols[i, e]
                path = pprjax.Paths(symbols[None], np.array([(symbols != PAD).sum()]))
                row = task.env.sequences(path)[0]
                row = tuple(row[row != PAD].tolist())
                assert value(task, row) == pytest.approx(found.best.value[i, e], abs=1e-4)
                assert Levenshtein.distance(original, row) == e
                answered += 1
    assert answered > 9


@pytest.mark.parametrize("judge", [Sums, Backwards])
def test_a_path_pays_at_its_end_and_promises_what_it_would(judge):
    task = instance(judge, 2)
    env, params, key = task.env, task.params, jax.random.key(0)
    step = jax.jit(env.step_env)
    state, row = env.reset_env(key, params)[1], ()
    for symbol in (3, 0, 2, END):
        assert float(env.promise(state, params)) == pytest.approx(opinion(task, row), abs=1e-5)
        cut = task.outcome(state, jnp.bool_(False), jnp.float32(0.0))
        assert not cut.reached and not class_is(0)(cut) and not class_is(1)(cut)
        assert env.available(state, params).tolist() == [len(row) < L or s == END for s in range(V)]
        _, state, reward, terminated, _ = step(key, state, symbol, params)
        row = row if symbol == END else (*row, symbol)
        assert bool(terminated) == (symbol == END)
        assert float(reward) == pytest.approx(opinion(task, row) * (symbol == END), abs=1e-5)
    assert bool(env.reached_goal(state, params)) == (opinion(task, row) > 0.5)
    _, after, reward, terminated, _ = step(key, state, 2, params)
    assert (float(reward), bool(terminated), int(after.symbol)) == (0.0, True, END)
    np.testing.assert_array_equal(after.class_probs, state.class_probs)


def test_a_judge_may_read_sequences_of_one_length():
    env = SequenceEnv(Backwards(jnp.ones((2, L + 1, V))), 1, num_symbols=V, length=L)
    step, state, rewards = jax.jit(env.step_env), env.reset_env(jax.random.key(0), env.default_params)[1], []
    for symbol in (3, 1, 2):
        _, state, reward, terminated, _ = step(jax.random.key(0), state, symbol, env.default_params)
        rewards.append(float(reward))
    np.testing.assert_allclose(rewards, [0, 0, 1 / (1 + np.exp(-2 * (L + 1)))], rtol=1e-6)
    assert terminated and env.reached_goal(state, env.default_params)


def test_a_judge_is_asked_what_is_asked_alone():
    judge = Backwards(jnp.asarray(np.random.default_rng(0).standard_normal((2, L + 1, V)), jnp.float32))
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, L + 1, (3, TOGETHER))
    symbols = np.where(np.arange(L) < lengths[..., None], rng.integers(0, V, (3, TOGETHER, L)), PAD)
    asked = rng.random((3, TOGETHER)) < 0.4
    plain = jax.vmap(jax.vmap(judge.probs))(symbols, lengths)
    expected = np.where(asked[..., None], plain, 0.0)
    many = jax.vmap(jax.vmap(asked_probs, (None, 0, 0, 0)), (None, 0, 0, 0))(judge, symbols, lengths, asked)
    np.testing.assert_allclose(many, expected, rtol=1e-5)
    judges = jax.tree.map(lambda x: jnp.stack([x, x, x]), judge)
    each = jax.vmap(jax.vmap(asked_probs, (None, 0, 0, 0)))(judges, symbols, lengths, asked)
    np.testing.assert_allclose(each, expected, rtol=1e-5)


def test_paths_and_sequences_are_inverse():
    env = instance(Sums, 0).env
    paths = env.paths(ALL)
    assert paths.to_lists()[5] == [V, *ALL[5], END]
    rows = env.sequences(paths)
    assert rows.shape == (len(ALL), L)
    assert [tuple(row[row != PAD].tolist()) for row in rows] == ALL
    assert env.paths(rows).to_lists() == paths.to_lists()


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([[0], [0, 2, 0, 2]], r"sequences\[1\]: expected at most 3 symbols, got 4"),
        ([[0, END]], r"sequences\[0\]\[1\]: expected a symbol in \[0, 4\) without 1, the end, got 1"),
        ([[0, PAD, 2]], r"sequences\[0\]\[1\].*got -1"),
    ],
)
def test_paths_name_the_sequence_at_fault(sequences, message):
    with pytest.raises(ValueError, match=message):
        instance(Sums, 0).env.paths(sequences)


def test_sequences_name_the_path_without_an_end():
    with pytest.raises(ValueError, match=r"paths\[1\]: expected 1, the end, as the last of its symbols, got 2"):
        instance(Sums, 0).env.sequences(pprjax.Paths.from_lists([[V, END], [V, 2]]))


@pytest.mark.parametrize("end", [-1, V])
def test_an_end_is_one_of_the_symbols(end):
    with pytest.raises(ValueError, match=rf"end: expected a symbol in \[0, 4\), got {end}"):
        SequenceEnv(Sums(jnp.zeros((2, L + 1, V))), 1, num_symbols=V, length=L, end=end)
