"""Tables of daily temperatures as they are published."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import temperature
from pprjax_envs.temperature.files import COLUMNS, read_years


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
@given(odd=st.lists(odd_line, max_size=12), header=st.booleans(), rows=st.integers(0, len(GOOD)))
def test_no_line_of_a_file_can_fell_the_reader(tmp_path_factory, odd, header, rows):
    path = tmp_path_factory.mktemp("fuzz") / "file.csv"
    good = [line.encode() for line in GOOD]
    lines = [HEADER.encode()] * header + good[: rows + 1] + odd + good[rows + 1 :]
    path.write_bytes(b"\n".join(lines))
    years, _ = read_years(path, ("Rome, Italy", "Columbia, South Carolina"))
    for degrees in years.degrees:
        assert degrees.shape[0] >= 2
        assert np.isfinite(degrees).all()


def test_real_years_are_read_and_are_what_the_simulator_was_made_after(reference):
    years, dropped = read_years(reference("data", "city_temperature.csv"), ("Rome", "Columbia"))
    assert dropped.rows == {"days without a temperature (-99)": 31}
    for city, degrees in zip(years.cities, years.degrees, strict=True):
        assert degrees.shape == (19, 12)
        np.testing.assert_allclose(degrees.mean(0), temperature.NORMALS[city], atol=0.06)
        np.testing.assert_allclose(degrees.std(0, ddof=1), temperature.DEVIATIONS[city], atol=0.06)
