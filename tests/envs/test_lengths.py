"""Sequences of any length up to one, with an end, judged step by step or only whole: against all there are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from pprjax_envs.sequence import SequenceEnv

import pprjax
from pprjax import declare
from pprjax.goals import class_is
from pprjax.paths import PAD
from pprjax.search.points import search_points

V, L, END = 4, 3, 0
ALL = [list(row) for n in range(L + 1) for row in itertools.product(range(1, V), repeat=n)]


@struct.dataclass
class Whole:
    """Reads a sequence from both ends, so that what it thinks of a prefix says little of the whole."""

    forth: jax.Array  # float[L, V, 2]
    back: jax.Array  # float[L, V, 2]

    def probs(self, symbols, length):
        place = jnp.arange(L)
        there = (place < length)[:, None]
        votes = jnp.where(there, self.forth[place, symbols] + self.back[length - 1 - place, symbols], 0.0)
        return jax.nn.softmax(votes.sum(0) + jnp.array([0.1, 0.0]))


@struct.dataclass
class Steps:
    """A vote for each symbol at its place."""

    forth: jax.Array  # float[L, V, 2]

    def init(self):
        return jnp.int32(0), jnp.zeros(2)

    def step(self, carry, symbol):
        place, votes = carry
        return place + 1, votes + self.forth[jnp.minimum(place, L - 1), symbol]

    def log_probs(self, carry):
        return jax.nn.log_softmax(carry[1] + jnp.array([0.1, 0.0]))


@struct.dataclass
class Bigram:
    logits: jax.Array  # float[V + 1, V]

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, jax.nn.log_softmax(self.logits[state.symbol])


def world(kind, seed=0, **options):
    rng = np.random.default_rng(seed)
    forth, back = jnp.asarray(2 * rng.standard_normal((2, L, V, 2)), jnp.float32)
    judge = Whole(forth, back) if kind == "whole" else Steps(forth)
    agent = Bigram(jnp.asarray(1.5 * rng.standard_normal((V + 1, V)), jnp.float32))
    env = SequenceEnv(judge, 1, num_symbols=V, length=L, end=END)
    return pprjax.Task(env, agent, goal=class_is(1), **options)


def truth(task, original, config, keeps=lambda row: True):
    """The best v of at most e edits, by looking at every sequence."""
    scores = pprjax.score(task, task.env.paths([original] * len(ALL)), task.env.paths(ALL), config)
    kept = np.array([keeps(row) for row in ALL])
    value = np.where((scores.goal > 0.5) & kept, scores.goal + config.lambda_policy * scores.r_policy, -np.inf)
    return np.maximum.accumulate([value[scores.distance == e].max(initial=-np.inf) for e in range(L + 1)])


@pytest.mark.parametrize("width", [1, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["whole", "steps"])
def test_every_number_of_edits_is_right_and_proved(kind, width):
    config = pprjax.Config(lambda_policy=0.3)
    for seed in range(3):
        task = world(kind, seed)
        originals = [ALL[i] for i in np.random.default_rng(seed).integers(0, len(ALL), 3)]
        paths = task.env.paths(originals)
        found = search_points(task, paths, config, num_distances=L + 1, calls=5_000, width=width)
        for i, original in enumerate(originals):
            expected = truth(task, original, config)
            np.testing.assert_allclose(np.maximum.accumulate(found.best.value[i]), expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found.limit[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_rules_are_kept():
    config = pprjax.Config(lambda_policy=0.3)
    rules = (declare.existence(2), declare.precedence(1, 3))
    task = world("whole", 1, constraints=pprjax.Constraints(rules=rules))

    def keeps(row):
        return 2 in row and all(1 in row[:j] for j, symbol in enumerate(row) if symbol == 3)

    originals = [[1, 1, 1], [3], []]
    found = pprjax.frontier(task, task.env.paths(originals), config, method="search")
    for i, original in enumerate(originals):
        expected = truth(world("whole", 1), original, config, keeps)
        mine = found.path == i
        np.testing.assert_allclose(found.value[mine], expected[found.distance[mine]], rtol=1e-4, atol=1e-4)
        for row in task.env.sequences(found.paths)[mine]:
            assert keeps(row[row != PAD].tolist())


def test_paths_and_sequences_are_inverse_and_edits_are_those_of_the_sequences():
    task = world("steps")
    rows = [[], [3], [1, 2], [2, 2, 1]]
    paths = task.env.paths(rows)
    assert paths.to_lists() == [[V, *row, END] for row in rows]
    padded = task.env.sequences(paths)
    assert [row[row != PAD].tolist() for row in padded] == rows
    assert task.env.paths(padded).to_lists() == paths.to_lists()
    assert pprjax.score(task, paths, paths[[3, 3, 3, 3]]).distance.tolist() == [3, 3, 2, 0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2, 3, 1]], r"sequences\[0\]: expected at most 3 symbols, got 4"),
        ([[1], [2, END]], r"sequences\[1\]\[1\]: expected a symbol in \[0, 4\) without 0, the end, got 0"),
        ([[V]], r"sequences\[0\]\[0\]: expected a symbol .* got 4"),
    ],
)
def test_what_is_no_sequence_is_named(rows, message):
    with pytest.raises(ValueError, match=message):
        world("steps").env.paths(rows)


def test_what_else_does_not_fit_is_named():
    task = world("steps")
    with pytest.raises(ValueError, match=r"paths\[1\]: expected 0, the end, as the last of its symbols, got 2"):
        task.env.sequences(pprjax.Paths.from_lists([[V, 1, END], [V, 2]]))
    with pytest.raises(ValueError, match=r"end: expected a symbol in \[0, 4\), got 4"):
        SequenceEnv(task.params.classifier, 1, num_symbols=V, length=L, end=V)
    with pytest.raises(TypeError, match="expected init, step and log_probs, or probs, got int"):
        SequenceEnv(3, 1, num_symbols=V, length=L)
