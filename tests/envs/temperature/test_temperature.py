"""Years of temperatures: how they are made and read, the models that judge them, and the whole experiment."""

import json
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pprjax_envs import temperature, weights
from pprjax_envs.lstm import Training
from pprjax_envs.temperature import command, experiment
from pprjax_envs.temperature import settings as temperature_settings
from pprjax_envs.temperature.judges import Bayes, NearestYears, accuracy

import pprjax

pytestmark = pytest.mark.usefixtures("optimized")


NUMBERS = dict(num_train=80, num_test=4)
PLAIN = dict(alignment_aware=False, telescoped=False, mixed_lanes=False, mixed_replay=False)  # compiles sooner
SMALL = temperature_settings.SETTINGS.replace(iterations=10, num_paths=64, **PLAIN)
QUICK = 300  # steps of a proof


@pytest.fixture(scope="module")
def data():
    """The command's own, so that models and compilations are shared."""
    return temperature.split(temperature.simulate(), **NUMBERS)


@pytest.fixture(scope="module")
def models(data):
    return temperature.trained(data)[0]


def test_simulated_years_have_the_cities_normals_deviations_and_a_common_anomaly():
    years = temperature.simulate(20_000, seed=3)
    for city, degrees in zip(years.cities, years.degrees, strict=True):
        np.testing.assert_allclose(degrees.mean(0), temperature.NORMALS[city], atol=0.15)
        np.testing.assert_allclose(degrees.std(0), temperature.DEVIATIONS[city], rtol=0.03)
        months = np.corrcoef(degrees.T)[np.triu_indices(12, 1)]
        np.testing.assert_allclose(months, temperature.COMMON_SHARE, atol=0.03)
    assert "simulated" in years.source


years_of_degrees = arrays(np.float64, st.tuples(st.integers(1, 4), st.just(12)), elements=st.floats(-40, 110))


@settings(max_examples=60, deadline=None)
@given(degrees=years_of_degrees, num=st.integers(0, 9), seed=st.integers(0, 99))
def test_augmentation_keeps_the_order_of_the_months_and_shifts_by_two_degrees_at_most(degrees, num, seed):
    more = temperature.augment(degrees, num, seed)
    assert more.shape == (num, 12)
    for i, year in enumerate(more):
        base = degrees[i % len(degrees)]
        assert np.abs(year - base).max() <= 2.0 + 1e-9
        colder = base[:, None] < base[None, :]
        assert (year[:, None] <= year[None, :])[colder].all()


def test_augmentation_shifts_months_that_are_far_apart_by_one_degree_at_least():
    shift = temperature.augment(10.0 * np.arange(12)[None], 50) - 10.0 * np.arange(12)
    assert np.abs(shift).min() >= 1.0
    assert (shift > 0).mean() == pytest.approx(0.5, abs=0.1)


def test_no_test_year_has_a_variant_among_the_training_years():
    distinct = np.arange(10)[:, None] * 20.0 + np.arange(12)  # years 20 °F apart: variants can't be mistaken
    data = temperature.split(temperature.Years(("A", "B"), (distinct, distinct + 1000), "made up"), num_test=8)
    assert data.train_degrees.shape == (200, 12)
    assert data.test_degrees.shape == (8, 12)
    for city in (0, 1):
        train, test = (
            np.round((degrees[labels == city].mean(1) - 5.5 - 1000 * city) / 20)
            for degrees, labels in ((data.train_degrees, data.train_labels), (data.test_degrees, data.test_labels))
        )
        assert not set(train) & set(test)
        assert len(set(test)) == 2
        assert len(set(train)) == 8


@settings(max_examples=50, deadline=None)
@given(low=st.integers(-60, 60), width=st.integers(1, 80), resolution=st.sampled_from([0.5, 1.0, 2.0]), data=st.data())
def test_a_scale_rounds_to_the_nearest_symbol(low, width, resolution, data):
    scale = temperature.Scale(low, low + width + 2, resolution)
    symbols = np.arange(scale.num_symbols)
    np.testing.assert_array_equal(scale.encode(scale.decode(symbols)), symbols)
    degrees = data.draw(st.floats(low, float(scale.decode(symbols[-1]))))
    assert abs(scale.decode(scale.encode(degrees)) - degrees) <= resolution / 2 + 1e-9
    assert scale.encode(low - 1e6) == 0
    assert scale.encode(low + 1e6) == symbols[-1]


def test_the_models_tell_the_cities_apart_and_like_real_years(data, models):
    quality = temperature.quality(data, models)
    assert quality["test_accuracy"] >= 0.95
    uniform = -np.log(data.scale.num_symbols)
    assert quality["test_log_prob"] > uniform + 1.0


def test_both_directions_share_one_world(data, models):
    valid, back = (temperature.task(data, models, wanted).env for wanted in (1, 0))
    assert valid == back
    assert hash(valid) == hash(back)


def test_weights_are_read_back_and_made_anew_where_they_are_spoilt(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"a": jax.numpy.arange(3.0), "b": [jax.numpy.int32(7)]}

    first, reloaded = weights.remembered("x", make, folder=tmp_path)
    assert not reloaded
    again, reloaded = weights.remembered("x", make, folder=tmp_path)
    assert reloaded
    jax.tree.map(np.testing.assert_array_equal, first, again)
    for file in (tmp_path / "x").rglob("*"):
        if file.is_file():
            file.write_bytes(b"spoilt")
    with pytest.warns(UserWarning, match="training anew"):
        anew, reloaded = weights.remembered("x", make, folder=tmp_path)
    assert not reloaded
    jax.tree.map(np.testing.assert_array_equal, first, anew)
    assert weights.remembered("x", make, folder=tmp_path)[1]


def test_the_hash_of_weights_sees_data_and_settings():
    base = weights.digest(np.arange(3), Training())
    assert base == weights.digest(np.arange(3), Training())
    others = [
        weights.digest(np.arange(4), Training()),
        weights.digest(np.arange(3.0), Training()),
        weights.digest(np.arange(3)[:, None], Training()),
        weights.digest(np.arange(3), Training(steps=9)),
    ]
    assert len({base, *others}) == 5


def small_command(tmp_path, **options):
    command.main(out=tmp_path / "out", config=SMALL, calls=QUICK, **NUMBERS | options)
    return json.loads((tmp_path / "out" / "summary.json").read_text())


@pytest.fixture
def quick_paper(monkeypatch):
    monkeypatch.setattr(temperature_settings, "PAPER", SMALL)  # shares its compilation
    monkeypatch.setattr(temperature_settings, "CALLS", QUICK)
    monkeypatch.setattr(temperature_settings, "BEAM_WIDTH", 16)
    monkeypatch.setattr(temperature_settings, "HEAT_PATH", (1.0, 10.0))
    monkeypatch.setattr(temperature_settings, "HEAT_POLICY", (0.3,))


def test_the_command_writes_table_summary_and_figures(tmp_path, data, models, quick_paper):
    import polars as pl

    summary = small_command(tmp_path)
    assert "simulated" in summary["source"]
    methods = {(row["direction"], row["method"]): row for row in summary["methods"]}
    for direction in ("Rome → Columbia", "Columbia → Rome"):
        assert methods[direction, "PPR"]["flipped"] == 1.0
    table = pl.read_parquet(tmp_path / "out" / "recourse.parquet")
    assert table.group_by("wanted", "method").len()["len"].to_list() == [2] * 10
    best = table.filter(method="PPR").select("wanted", "path", best="reward")
    beside = table.filter("flipped", pl.col("method") != "PPR").join(best, on=("wanted", "path"))
    assert beside["method"].n_unique() >= 3
    assert (beside["best"] > beside["reward"] - 1e-4).all()  # whether or not it is proved
    for row in summary["methods"]:
        proved = table.filter(wanted=int(row["direction"] == "Rome → Columbia"), method=row["method"])["proved"]
        assert proved.null_count() == (0 if row["method"] == "PPR" else 2)
        assert row["proved"] == proved.mean()
    assert summary["judges"] == ["Bayes", "5-NN"]
    judges = Bayes.of_the_simulator(data.cities), NearestYears.among(temperature.simulate(seed=command.OTHER_SEED))
    for (wanted, method), rows in table.group_by("wanted", "method"):
        before, after = (data.scale.decode(np.array(rows[name].to_list())) for name in ("original", "recourse"))
        told = methods["Rome → Columbia" if wanted else "Columbia → Rome", method]
        for judge in judges:
            convinced = judge.probs(after)[:, wanted]
            np.testing.assert_allclose(rows[judge.name], convinced)
            assert told[judge.name] == np.mean(convinced > 0.5)
        assert told["degrees"] == pytest.approx(np.abs(after - before).sum(1).mean())
        assert rows["distance"].to_list() == (before != after).sum(1).tolist()
    cells = summary["heat_map"]
    assert [cell["lambda_path"] for cell in cells] == [1.0, 10.0]
    for cell in cells:
        worth = cell["s_goal"] + cell["lambda_path"] * cell["s_path"] + 0.3 * cell["r_policy"]
        assert cell["reward"] == pytest.approx(worth, rel=1e-5)
    for name in ("years", "scores", "lambdas"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_bl1_takes_the_smallest_k_that_turns_the_most_years(data, models, monkeypatch):
    task = temperature.task(data, models, wanted=1)
    prob = np.array([[0.1, 0.2, 0.6, 0.4, 0.9], [0.1, 0.7, 0.8, 0.9, 0.9], [0.4, 0.4, 0.51, 0.3, 0.6]])  # of k = 0 … 4
    sequences = np.arange(3 * 5 * 12).reshape(3, 5, 12)
    monkeypatch.setattr(
        experiment, "symbol_changes", lambda *args, **settings: SimpleNamespace(prob=prob, sequences=sequences)
    )
    chosen, k = experiment.few_changes(task, data, data.test_symbols[:3])
    assert k == 2
    np.testing.assert_array_equal(chosen, sequences[:, 2])


def test_each_cell_of_a_heat_map_is_searched_by_itself(data, models, monkeypatch):
    """What another cell found is not shown, however good it is here."""
    task = temperature.task(data, models, wanted=1)
    original = data.test_symbols[data.test_labels == 0][0]
    found = np.stack([original, *data.train_symbols[data.train_labels == 1][:8]])

    def one_each(aim, originals, config, *, key, **sizes):
        paths = task.env.paths(found)
        scores = pprjax.score(aim, originals, paths, config)
        assert list(zip(config.lambda_path, config.lambda_policy, strict=True)) == [
            (path, policy) for path in (1.0, 10.0, 100.0) for policy in (0.1, 1.0, 3.0)
        ]
        status = np.array(["reached_goal"] * len(found))
        return SimpleNamespace(paths=paths, scores=scores, status=status, reward=np.arange(9.0))

    monkeypatch.setattr(experiment, "recourse", one_each)
    cells = experiment.heat_map(data, models, SMALL)
    assert cells["distance"].to_list() == (found != original).sum(1).tolist()
    assert cells["reward"].to_list() == list(range(9))


def test_a_shifted_run_of_months_is_two_edits_as_published_and_many_replacements(data, models):
    task = temperature.task(data, models, wanted=1)
    year = data.test_symbols[:1]
    shifted = np.concatenate([year[:, :2], year[:, 3:8], year[:, 7:]], 1)  # a month out, and one in five months later
    originals = task.env.paths(year)
    published = SMALL.replace(w_ins=1.0, w_del=1.0)
    months = int((year != shifted).sum())
    assert months > 2
    for config, distance in ((published, 2.0), (SMALL, months)):
        (row,) = experiment.outcomes(task, data.scale, originals, shifted, config).iter_rows(named=True)
        assert (row["distance"], row["months"]) == (distance, months)
        assert row["s_path"] == pytest.approx(1 / (distance + 1))
        assert row["degrees"] == np.abs(data.scale.decode(year) - data.scale.decode(shifted)).sum()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=12), st.lists(st.integers(0, 5), min_size=12, max_size=12))
def test_no_insertion_pays_where_only_replacements_should(one, other):
    costs = SMALL.objective.costs
    found = pprjax.levenshtein(np.array(one), np.array(other), w_ins=costs.insert, w_del=costs.delete)
    assert float(found) == sum(a != b for a, b in zip(one, other, strict=True))


def test_bayes_is_bayes_rule():
    """Against SciPy's densities; and no judge beats it on the years that it knows the distribution of."""
    from scipy.stats import multivariate_normal

    years = temperature.simulate(400, seed=7)
    judge = Bayes.of_the_simulator(years.cities)
    degrees = np.concatenate(years.degrees)
    densities = []
    for city in years.cities:
        spread = np.diag(temperature.DEVIATIONS[city])
        correlation = np.full((12, 12), temperature.COMMON_SHARE) + (1 - temperature.COMMON_SHARE) * np.eye(12)
        density = multivariate_normal(temperature.NORMALS[city], spread @ correlation @ spread)
        densities.append(density.logpdf(degrees))
    expected = 1 / (1 + np.exp(densities[0] - densities[1]))
    np.testing.assert_allclose(judge.probs(degrees)[:, 1], expected, atol=1e-9)
    labels = np.repeat([0, 1], 400)
    neighbours = NearestYears.among(temperature.simulate(40, seed=8))
    assert accuracy(judge, degrees, labels) >= max(0.97, accuracy(neighbours, degrees, labels) - 0.005)
    assert accuracy(Bayes.fitted(years), degrees, labels) == pytest.approx(accuracy(judge, degrees, labels), abs=0.01)


def test_the_nearest_years_vote():
    near, far = np.zeros((3, 12)), np.full((4, 12), 10.0)
    judge = NearestYears.among(temperature.Years(("A", "B"), (near, far), "made up"))
    np.testing.assert_allclose(judge.probs(np.stack([near[0], far[0]])), [[0.6, 0.4], [0.2, 0.8]])


def test_years_that_are_set_aside_are_every_third_and_nowhere_else():
    years = temperature.Years(("A", "B"), (np.arange(7.0)[:, None], np.arange(6.0)[:, None]), "made up")
    kept, aside = temperature.set_aside(years)
    assert [d[:, 0].tolist() for d in kept.degrees] == [[1, 2, 4, 5], [1, 2, 4, 5]]
    assert [d[:, 0].tolist() for d in aside.degrees] == [[0, 3, 6], [0, 3]]
    with pytest.raises(ValueError, match="expected at least 2 years of B to set aside, got 1"):
        temperature.set_aside(temperature.Years(("A", "B"), (np.zeros((7, 12)), np.zeros((3, 12))), "made up"))


def test_the_command_knows_no_other_simulated_cities(tmp_path):
    with pytest.raises(ValueError, match="without --data there are only Rome Columbia"):
        small_command(tmp_path, cities=("Rome", "Paris"))


@pytest.mark.slow
def test_the_whole_chain_on_real_years(tmp_path, quick_paper, reference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = small_command(tmp_path, data=reference("data", "city_temperature.csv"), heat_maps=False)
    assert summary["source"] == "city_temperature.csv"
    assert summary["models"]["test_accuracy"] >= 0.95
    assert all(row["flipped"] == 1.0 for row in summary["methods"] if row["method"] == "PPR")
