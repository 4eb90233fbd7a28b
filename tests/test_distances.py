"""R_path by other distances than the edit distance, against every sequence there is."""

import jax
import numpy as np
import pytest
from search_worlds import ALL, L, V, sequences

import pprjax
from pprjax.constraints import Constraints
from pprjax.logs.frames import check

KEY, START = jax.random.key(0), V
FARTHEST = L * (V - 1)
PULL = pprjax.Config(lambda_path=3.0, lambda_policy=0.3)
SMALL = PULL.replace(iterations=60, num_paths=64, num_best=16, width=32)


def distances(original, kind):
    difference = np.abs(ALL - np.asarray(original)).astype(float)
    return {
        "edit": np.array([float(pprjax.levenshtein(np.asarray(original), path)) for path in ALL]),
        "manhattan": difference.sum(1),
        "euclidean": np.sqrt((difference**2).sum(1)),
    }[kind]


def worth(task, original, config):
    """R of every sequence, by hand; -inf of one that misses the goal."""
    originals = task.env.paths([original] * len(ALL))
    scores = pprjax.score(task, originals, task.env.paths(ALL), config.replace(distance="edit"))
    close = config.lambda_path / (1 + distances(original, config.distance))
    return np.where(scores.goal > 0.5, scores.goal + close + config.lambda_policy * scores.r_policy, -np.inf)


@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
def test_scores_are_those_of_the_functions(kind):
    task, original = sequences(2), ALL[77]
    originals, config = task.env.paths([original] * len(ALL)), PULL.replace(distance=kind)
    scores = pprjax.score(task, originals, task.env.paths(ALL), config)
    np.testing.assert_allclose(scores.distance, getattr(pprjax, kind)(original, ALL), rtol=1e-6)
    np.testing.assert_allclose(scores.path, 1 / (1 + distances(original, kind)), rtol=1e-6)


def test_a_search_proves_the_best_by_manhattan_which_is_another_than_by_edits():
    config = PULL.replace(distance="manhattan")
    others = 0
    for seed in range(3):
        task = sequences(seed)
        task = task.replace(constraints=Constraints(max_distance=FARTHEST))
        chosen = ALL[np.random.default_rng(seed).integers(0, len(ALL), 4)]
        found = pprjax.recourse(task, task.env.paths(chosen), config, method="search")
        for i, original in enumerate(chosen):
            truth = worth(task, original, config)
            assert found.reward[i] == pytest.approx(truth.max(), abs=1e-4)
            assert found.bound[i] == pytest.approx(truth.max(), abs=1e-4)
            by_edits = worth(task, original, config.replace(distance="edit"))
            others += truth[by_edits.argmax()] < truth.max() - 1e-3
    assert others > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
def test_a_learner_finds_the_best_by_either(kind):
    """Of an original for which the best by edits is another."""
    task, config = sequences(1), SMALL.replace(distance=kind)
    for original in ALL[::7]:
        truth, by_edits = worth(task, original, config), worth(task, original, config.replace(distance="edit"))
        if truth[by_edits.argmax()] < truth.max() - 1e-3:
            break
    found = pprjax.recourse(task, task.env.paths([original]), config, key=KEY)  # "auto"
    assert found.method.tolist() == ["learn"]
    assert found.reward[0] == pytest.approx(truth.max(), abs=1e-4)
    path = np.flatnonzero((task.env.sequences(found.paths)[0] == ALL).all(1))
    assert found.scores.distance[0] == pytest.approx(distances(original, kind)[path[0]], rel=1e-6)
    assert truth.max() > truth[by_edits.argmax()] + 1e-3


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("euclidean", {"method": "search"}, "distance: .* expected \"edit\", got 'euclidean'"),
        ("manhattan", {"method": "search"}, r'distance: with "manhattan" expected max_edits, or Constraints\(max_dist'),
        ("manhattan", {"method": "exact"}, "distance: a certificate counts edits"),
        ("hamming", {}, "distance: expected one of edit, manhattan, euclidean, real, got 'hamming'"),
    ],
)
def test_what_can_not_be_had_is_refused_by_name(kind, options, message):
    task = sequences(0)
    with pytest.raises(ValueError, match=message):
        pprjax.recourse(task, task.env.paths(ALL[:1]), PULL.replace(distance=kind), key=KEY, **options)


@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
def test_paths_of_different_lengths_are_refused(kind):
    task, config = sequences(0), PULL.replace(distance=kind)
    ragged = pprjax.Paths.from_lists([[START, 0, 1, 2, 3], [START, 0, 1]])
    for method in ("learn", "search"):
        with pytest.raises(
            ValueError,
            match=rf"distance: '{kind}' compares paths of one length, the world's 5 symbols, got 3 in originals\[1\]",
        ):
            pprjax.recourse(task, ragged, config, key=KEY, method=method)
    with pytest.raises(ValueError, match=rf"paths\[1\]: distance '{kind}' compares paths of one length, expected 3"):
        pprjax.score(task, ragged, task.env.paths(ALL[:2]), config)
    with pytest.raises(ValueError, match='distance: the paths of a log differ in length, so expected "edit"'):
        check(None, config, None)
