"""The figures in the docs are those of the committed measurements."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("tables", ROOT / "bench" / "tables.py")
assert spec is not None and spec.loader is not None
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)

MACHINE = {"cores": 2, "processor": "P", "platform": "cpu", "device": "cpu", "jax": "1"}


def line(rate, **machine):
    figures = {"pprjax_steps_per_s": rate, "frozen_lake_steps_per_s": 1e6, "ratio": rate / 1e6}
    return {"bench": "rollouts", "date": "2000-01-01", **figures, "machine": MACHINE | machine}


@pytest.mark.parametrize("page", tables.PAGES)
def test_a_page_has_the_committed_figures(page):
    text = (ROOT / page).read_text()
    lines = tables.parsed((ROOT / "bench" / "figures.jsonl").read_text())
    assert text == tables.with_figures(text, tables.PAGES[page](lines)), "python bench/tables.py bench/figures.jsonl"


def test_latest_line_of_a_benchmark_wins_and_only_between_the_markers():
    lines = tables.parsed("\n".join(json.dumps(line(rate)) for rate in (3e6, 5e6)))
    text = tables.with_figures("a <!-- figures --> old <!-- /figures --> b", tables.tables(lines))
    assert "5 million" in text and "3 million" not in text and "old" not in text
    assert text.startswith("a <!-- figures -->\n") and text.endswith("<!-- /figures --> b")


@pytest.mark.parametrize(("platform", "said"), [("cpu", True), ("gpu", False)])
def test_it_says_so_where_nothing_was_measured_on_a_gpu(platform, said):
    text = tables.tables([line(3e6), line(9e6, platform=platform, device="H")])
    assert ("on a GPU yet" in text) == said
    assert ("3 million" in text) == (not said)  # machines have tables of their own
