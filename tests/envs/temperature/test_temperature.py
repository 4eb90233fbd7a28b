"""Years of temperatures: how they are made and read, the models that judge them, and the whole experiment."""

import dataclasses
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pprjax_envs import temperature, weights
from pprjax_envs.lstm import Training
from pprjax_envs.sequence import class_probs
from pprjax_envs.temperature import command
from pprjax_envs.temperature.files import COLUMNS, read_years

import pprjax

QUICK = Training(width=12, steps=150, batch_size=32)
SMALL = pprjax.Config(
    lambda_path=10.0, lambda_policy=0.3, c_e=0.0, iterations=20, num_paths=64, num_best=8, width=32, batch_size=64
)


@pytest.fixture(scope="module")
def data():
    return temperature.split(temperature.simulate(12), num_train=80, num_test=8, seed=1)


@pytest.fixture(scope="module")
def models(data):
    return temperature.train(data, QUICK)


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
    there, back = (temperature.task(data, models, wanted).env for wanted in (1, 0))
    assert there == back
    assert hash(there) == hash(back)


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


def rows(city="Rome", state="", country="Italy", years=(1995, 1996), days=28):
    return [
        f"Europe,{country},{state},{city},{month},{day},{year},{40 + month + day / 28:.1f}"
        for year in years
        for month in range(1, 13)
        for day in range(1, days + 1)
    ]


GOOD = rows() + rows("Columbia", "South Carolina", "US")
HEADER = ",".join(COLUMNS)


def write(folder: Path, lines, encoding="utf-8") -> Path:
    path = folder / "file.csv"
    path.write_bytes("\n".join(lines).encode(encoding, errors="surrogateescape"))
    return path


@pytest.mark.parametrize("head", [[HEADER], [], ["\ufeff" + HEADER]])
def test_reads_monthly_means_with_and_without_a_header(tmp_path, head):
    years, dropped = read_years(write(tmp_path, head + GOOD), ("Rome", "Columbia"))
    assert dropped.rows == {}
    for degrees in years.degrees:
        np.testing.assert_allclose(degrees, np.tile(40 + np.arange(1, 13) + 14.5 / 28, (2, 1)), atol=0.05)


def test_says_what_it_drops(tmp_path):
    bad = [
        "Europe,Italy,,Rome,1,29,1995,-99",
        "Europe,Italy,,Rome,1,0,1995,50",
        "Europe,Italy,,Rome,1,5,200,50",
        "Europe,Italy,,Rome,1,5,201,50",
        "Europe,Italy,,Rome,1,5,1995,90",
        "Europe,Italy,,Rome,2,30,1995,50",
        "Europe,Italy,,Rome,13,3,1995,50",
        "Europe,Italy,,Rome,1,29,1995,warm",
        "Europe,Italy,,Rome,1,29,1995,nan",
        "Europe,Italy,,Rome,1,29,1995,1e9",
        "Europe,Italy,,Rome,1,29",
        "Europe,Italy,,Rome,1,29,1995,50,more",
        *rows(years=(2020,))[:200],
    ]
    years, dropped = read_years(write(tmp_path, [HEADER, *GOOD, *bad]), ("Rome", "Columbia"))
    assert dropped.rows == {
        "days without a temperature (-99)": 1,
        "duplicate days": 1,
        "rows in years 200 and 201": 2,
        "rows with bad numbers": 1,
        "rows with dates that do not exist": 2,
        "rows with day 0": 1,
        "rows with impossible temperatures": 2,
        "rows with missing or extra columns": 2,
    }
    assert dropped.years == {"Rome": [2020], "Columbia": []}
    assert "Rome's incomplete 2020" in str(dropped)
    clean, _ = read_years(write(tmp_path, [HEADER, *GOOD]), ("Rome", "Columbia"))
    jax.tree.map(np.testing.assert_array_equal, years.degrees, clean.degrees)


def test_a_slip_in_a_line_makes_no_place(tmp_path):
    """Whatever stands in its other columns: the line is dropped."""
    slip = ["Europe,\0US,South Carolina,Columbia,1,1,1995,41.0", "Europe,,,Rome,1,1,1996,41.0"]
    years, dropped = read_years(write(tmp_path, [HEADER, *GOOD[:40], *slip, *GOOD[40:]]), ("Rome", "Columbia"))
    clean, _ = read_years(write(tmp_path, [HEADER, *GOOD]), ("Rome", "Columbia"))
    jax.tree.map(np.testing.assert_array_equal, years.degrees, clean.degrees)
    assert dropped.rows == {"rows of places with hardly any": 2}


def test_a_name_of_several_places_must_be_told_apart(tmp_path):
    path = write(tmp_path, [HEADER, *GOOD, *rows("Columbia", "Missouri", "US"), *rows("Columbiana", "Ohio", "US")])
    with pytest.raises(ValueError, match=r"several places \(Missouri, US; South Carolina, US\)"):
        read_years(path, ("Rome", "Columbia"))
    years, _ = read_years(path, ("Columbia, Missouri", "columbia, south carolina"))
    assert [len(degrees) for degrees in years.degrees] == [2, 2]


@pytest.mark.parametrize(
    "lines, cities, message",
    [
        ([HEADER, *GOOD], ("Rome", "rome"), "two different names"),
        ([HEADER, *GOOD], ("Rome", "Paris"), "2 complete years of Paris, got 0"),
        ([HEADER, *rows(days=5)], ("Rome", "Columbia"), "Rome, got 0.*incomplete 1995, 1996"),
        (["City,Month", "Rome,1"], ("Rome", "Columbia"), "header lacks Region"),
        ([], ("Rome", "Columbia"), "got 0"),
    ],
)
def test_says_what_is_wrong_with_a_file(tmp_path, lines, cities, message):
    with pytest.raises(ValueError, match=message):
        read_years(write(tmp_path, lines), cities)


odd_line = st.one_of(
    st.text(max_size=40).map(lambda text: text.encode("utf-8", errors="surrogatepass")),
    st.binary(max_size=40),
    st.lists(
        st.sampled_from(
            ["Rome", "Italy", "", "1", "-99", "0", "200", "1995", "nan", '"', "9" * 5000, "\0", "1e400", "٣"]
        ),
        max_size=11,
    ).map(lambda fields: ",".join(fields).encode()),
    st.tuples(st.sampled_from(GOOD), st.integers(0, 60), st.binary(max_size=4)).map(
        lambda x: x[0].encode()[: x[1]] + x[2] + x[0].encode()[x[1] :]
    ),
)


@settings(max_examples=80, deadline=None)
@given(odd=st.lists(odd_line, max_size=12), header=st.booleans(), at=st.integers(0, len(GOOD)))
def test_no_line_of_a_file_can_fell_the_reader(tmp_path_factory, odd, header, at):
    path = tmp_path_factory.mktemp("fuzz") / "file.csv"
    good = [line.encode() for line in GOOD]
    lines = [HEADER.encode()] * header + good[: at + 1] + odd + good[at + 1 :]
    path.write_bytes(b"\n".join(lines))
    years, _ = read_years(path, ("Rome, Italy", "Columbia, South Carolina"))
    for degrees in years.degrees:
        assert degrees.shape[0] >= 2
        assert np.isfinite(degrees).all()


def small_command(tmp_path, **options):
    command.main(out=tmp_path / "out", config=SMALL, num_train=40, num_test=4, cache=tmp_path / "cache", **options)
    return json.loads((tmp_path / "out" / "summary.json").read_text())


@pytest.fixture
def quick_paper(monkeypatch):
    monkeypatch.setattr(command, "PAPER", SMALL)  # shares its compilation
    monkeypatch.setattr(command, "HEAT_PATH", (1.0, 10.0))
    monkeypatch.setattr(command, "HEAT_POLICY", (0.3,))


def test_the_command_writes_table_summary_and_figures(tmp_path, quick_paper):
    import polars as pl

    summary = small_command(tmp_path)
    assert "simulated" in summary["source"]
    methods = {(row["direction"], row["method"]): row for row in summary["methods"]}
    for direction in ("Rome → Columbia", "Columbia → Rome"):
        assert methods[direction, "PPR"]["flipped"] == 1.0
    unbound, bound = (methods["Rome → Columbia", method] for method in ("PPR, no goal", "PPR"))
    assert unbound["distance"] == 0
    assert unbound["flipped"] == 0
    assert unbound["reward"] > bound["reward"]
    table = pl.read_parquet(tmp_path / "out" / "recourse.parquet")
    assert table.group_by("wanted", "method").len()["len"].to_list() == [2] * 9
    cells = summary["heat_map"]
    assert [cell["lambda_path"] for cell in cells] == [1.0, 10.0]
    for cell in cells:
        values = [c["s_goal"] + cell["lambda_path"] * c["s_path"] + 0.3 * c["r_policy"] for c in cells]
        assert cell["reward"] == pytest.approx(max(values), rel=1e-5)
    for name in ("years", "scores", "lambdas"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_search_pulled_harder_finds_what_the_plain_one_misses(data, models, monkeypatch):
    task, key = temperature.task(data, models, wanted=1), jax.random.key(0)
    originals = task.env.paths(data.test_symbols[data.test_labels == 0])
    plain = pprjax.recourse(task, originals, SMALL, method="learn", key=key, ids=np.arange(len(originals)))
    both = command.outcomes(task, originals, command.search(task, originals, SMALL, key=key), SMALL)
    assert (both["reward"].to_numpy() > plain.reward - 1e-4).all()
    assert (both["reward"].to_numpy() > plain.reward + 1e-4).any()
    monkeypatch.setattr(command, "SEARCHED", (1.0,))
    np.testing.assert_array_equal(command.search(task, originals, SMALL, key=key), task.env.sequences(plain.paths))


def test_a_heat_map_shows_the_best_that_meets_the_goal(data, models, quick_paper, monkeypatch):
    task = temperature.task(data, models, wanted=1)
    original = data.test_symbols[data.test_labels == 0][0]
    flipped = class_probs(models.classifier, data.train_symbols)[:, 1] > 0.5
    near, far = np.argsort(
        [(year != original).sum() + 99 * ~f for year, f in zip(data.train_symbols, flipped, strict=True)]
    )[[0, 9]]
    found = [original, data.train_symbols[far]]  # at λ_path = 10 the original has the larger R
    monkeypatch.setattr(pprjax, "recourse", lambda *_, **__: SimpleNamespace(paths=task.env.paths(found)))
    cells = command.heat_map(data, models, SMALL)
    assert cells["distance"].min() > 0
    assert cells["s_goal"].min() > 0.5
    found[0] = data.train_symbols[near]
    costly = command.heat_map(data, models, dataclasses.replace(SMALL, lambda_path=1.0, w_sub=2.0))
    scored = [
        pprjax.score(task, task.env.paths([original]), task.env.paths([year]), pprjax.Config(habit="link", w_sub=2.0))
        for year in found
    ]
    for cell in costly.iter_rows(named=True):
        rewards = [
            float(s.goal[0]) + cell["lambda_path"] / (1 + float(s.distance[0])) + 0.3 * float(s.r_policy[0])
            for s in scored
        ]
        best = scored[int(np.argmax(rewards))]
        assert cell["reward"] == pytest.approx(max(rewards), rel=1e-5)
        assert cell["distance"] == best.distance[0]


def test_the_command_knows_no_other_simulated_cities(tmp_path):
    with pytest.raises(ValueError, match="without --data there are only Rome Columbia"):
        small_command(tmp_path, cities=("Rome", "Paris"))


def test_the_whole_chain_on_real_years(tmp_path, quick_paper, reference):
    path = reference("data", "city_temperature.csv")
    years, dropped = read_years(path, ("Rome", "Columbia"))
    assert dropped.rows == {"days without a temperature (-99)": 31}
    for city, degrees in zip(years.cities, years.degrees, strict=True):
        assert degrees.shape == (19, 12)
        np.testing.assert_allclose(degrees.mean(0), temperature.NORMALS[city], atol=0.06)
        np.testing.assert_allclose(degrees.std(0, ddof=1), temperature.DEVIATIONS[city], atol=0.06)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = small_command(tmp_path, data=path, heat_maps=False)
    assert summary["source"] == "city_temperature.csv"
    assert summary["models"]["test_accuracy"] >= 0.95
    assert all(row["flipped"] == 1.0 for row in summary["methods"] if row["method"] == "PPR")
