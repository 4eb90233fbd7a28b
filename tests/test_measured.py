"""The figures in the docs are those of the committed measurements."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "bench"))  # scripts that import one another
import tables  # noqa: E402

MACHINE = {"cores": 2, "processor": "P", "platform": "cpu", "device": "cpu", "jax": "1"}


def line(rate, date="2000-01-01", more=None, **machine):
    figures = {"pprjax_steps_per_s": rate, "frozen_lake_steps_per_s": 1e6, "ratio": rate / 1e6, **(more or {})}
    return {"bench": "rollouts", "date": date, **figures, "machine": MACHINE | machine}


def sparse(seconds):
    figures = dict(states=5, steps=9, paths=2, longest=4, seconds=seconds, peak_gib=0.5, answered=2, proved=2)
    return {"bench": "sparse_logs_gps", "date": "2000-01-01", **figures, "machine": MACHINE}


@pytest.mark.parametrize("page", tables.PAGES)
def test_a_page_has_the_committed_figures(page):
    text = (ROOT / page).read_text()
    lines = tables.parsed((ROOT / "bench" / "figures.jsonl").read_text())
    assert text == tables.with_figures(text, tables.PAGES[page](lines)), "python bench/tables.py bench/figures.jsonl"


def test_figures_stand_only_between_the_markers():
    text = tables.with_figures("a <!-- figures --> old <!-- /figures --> b", tables.tables([line(5e6)]))
    assert "5 million" in text and "old" not in text
    assert text.startswith("a <!-- figures -->\n") and text.endswith("<!-- /figures --> b")


def test_runs_of_a_day_are_shown_as_median_and_range_of_the_last_three():
    text = tables.tables([line(rate) for rate in (1e6, 9e6, 5e6, 3e6)])
    assert "| 5 million (3 million–9 million) | gymnax FrozenLake 1 million | 5 (3–9) | 3 |" in text


@pytest.mark.parametrize(
    "older",
    [line(3e6, date="1999-12-31"), line(3e6, more={"endless_ratio": 2.0, "endless_steps_per_s": 1e6})],
    ids=["another day", "other fields"],
)
def test_only_runs_alike_stand_together(older):
    text = tables.tables([older, line(5e6)])
    assert "| 5 million |" in text and "3 million" not in text


def test_a_time_of_fewer_than_three_runs_is_not_shown():
    memory = [sparse(seconds=seconds) for seconds in (10.0, 12.0, 14.0)]
    for runs in range(1, 4):
        text = tables.tables(memory[:runs])
        assert (
            "0.5 GiB" in text
            and ("| 12 s (10 s–14 s) |" in text) == (runs == 3)
            and ("file to file" in text) == (runs == 3)
        )


@pytest.mark.parametrize(("platform", "said"), [("cpu", True), ("gpu", False)])
def test_it_says_so_where_nothing_was_measured_on_a_gpu(platform, said):
    text = tables.tables([line(3e6), line(9e6, platform=platform, device="H")])
    assert ("on a GPU yet" in text) == said
    assert ("| 3 million |" in text) == (not said)  # machines have tables of their own
