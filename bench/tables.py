"""Write the measured figures into the docs. `python bench/tables.py bench/figures.jsonl`

Reads the JSON lines that the benchmarks print, of which the latest runs of each benchmark count, three at most, and
writes between the markers `<!-- figures -->` and `<!-- /figures -->`: all tables, one for each machine, into
docs/measured.md, and a few lines into README.md. Where runs differ it writes median (lowest–highest).
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from own_tables import ORDER, OWN_TABLES
from rows import ROWS, Timed, at_least_beam, temperature_by_weight
from written import Line, gib, markdown, number, percent, ratio, seconds, spread

ROOT = Path(__file__).resolve().parent.parent
RUNS = 3  # of a benchmark, that are shown together
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = parsed(Path(sys.argv[1]).read_text())
    for page, figures in PAGES.items():
        file = ROOT / page
        file.write_text(with_figures(file.read_text(), figures(lines)))


def parsed(text: str) -> list[Line]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def with_figures(page: str, figures: str) -> str:
    """A page with these figures between its markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{figures}{END}{after}"


def latest_runs(lines: list[Line]) -> dict[str, Line]:
    """Of each benchmark its last runs as one line, `RUNS` at most: those of one day, machine and set of fields."""
    of = collections.defaultdict(list)
    for line in lines:
        of[line["bench"]].append(line)
    latest = {}
    for name, runs in of.items():
        setting = [(run["date"], place(run), form(run)) for run in runs]
        alike = [run for run, of_run in zip(runs, setting, strict=True) if of_run == setting[-1]][-RUNS:]
        latest[name] = merged(alike) | {"runs": len(alike)}
    return latest


def form(value: Any) -> Any:
    """The names of all fields."""
    if isinstance(value, dict):
        return {name: form(part) for name, part in value.items()}
    return [form(part) for part in value] if isinstance(value, list) else None


def merged(runs: list[Any]) -> Any:
    """One value for those of several runs: a number in which they differ becomes float[runs]."""
    last = runs[-1]
    if isinstance(last, dict):
        return {name: merged([run[name] for run in runs]) for name in last}
    if isinstance(last, list):
        return [merged(list(parts)) for parts in zip(*runs, strict=True)]
    differ = isinstance(last, int | float) and any(run != last for run in runs)
    return np.array(runs, float) if differ else last


def highlights(lines: list[Line]) -> str:
    """Markdown: what a reader of the README should know, in a few lines."""
    latest = latest_runs(lines)
    quality, plain, text = latest["quality"], latest["quality_plain"], latest["text"]
    certificates = next(case for case in latest["exact"]["cases"] if case["goal"] == "reached")["certificates_per_s"]
    rates = latest["edit_distance"]["pairs_per_second"]
    years = latest["temperature"]
    short = temperature_by_weight(years)
    shortfalls = ", ".join(f"{percent(case['shortfall'], 2)} at {weight:g}" for weight, case in short.items())
    log = latest["log_recourse"]
    ours, theirs = (
        [seconds(cell[program]["each_s"]) for cell in latest["reference_torch"]["cells"].values()]
        for program in ('pprjax, learner, stop="certified"', "PyTorch with the mends")
    )
    log_minutes = f"{spread(log['minutes'], '{:.1f}'.format)} minutes and " if log["runs"] == RUNS else ""
    text_seconds = f" A sentence takes {seconds(text['seconds_each'])} an author." if text["runs"] == RUNS else ""
    points = [
        f"The learner comes within 1 % of the certified optimum in {percent(quality['within_1_flag'])} of the cases, "
        f"over {len(quality['cells']['flag'])} pairs of weights. Without our changes to the published algorithm it "
        f"does in {percent(plain['within_1_flag'])}.",
        "When 256 originals are learned together, in 300 iterations, each takes "
        f"{seconds(latest['batching']['seconds_each_of_256'])}. A certificate takes {seconds(1 / certificates)}.",
        f"A learner that is told the optimum, and stops there, takes {ours[0]} an original at λ_path = λ_policy = 0.1, "
        f"and {ours[1]} at 10. The same algorithm in PyTorch takes {theirs[0]} and {theirs[1]} to come within 1 % of "
        "it.",
        f"{log['paths']:,} logged paths, from file to file and certified, take {log_minutes}{gib(log['peak_gib'])} of "
        "memory.",
        f"Edit distances: {number(rates['levenshtein'])} a second, {ratio(latest['edit_distance']['ratio'])} times as "
        "many as rapidfuzz.",
        "Years: the search is at least as good as the best of four beams in "
        f"{percent(years['share_at_least_beam'])} of the cases, with {number(years['search_steps'])} classifier calls "
        f"where they need {number(years['classifier_steps'])}. The learner's mean R is below theirs, by {shortfalls} "
        "(λ_policy).",
        f"Text: R is at least that of a plain beam search in {percent(at_least_beam(text))} of the cases."
        f"{text_seconds}",
    ]
    return "\n" + "\n".join(f"* {point}" for point in points) + "\n\n"


def tables(lines: list[Line]) -> str:
    """Markdown: for each machine its figures, and what each part adds where that was measured."""
    machines = collections.defaultdict(list)
    for line in lines:
        machines[place(line)].append(line)
    text = []
    for machine, of_machine in machines.items():
        latest = latest_runs(of_machine)
        dates = sorted({line["date"] for line in latest.values()})
        text.append(f"{machine}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}:\n")
        rows = [
            (*row, str(latest[name]["runs"]))
            for name in sorted(latest, key=order)
            for row in ROWS.get(kind(name), lambda line: [])(latest[name])
            if latest[name]["runs"] == RUNS or not isinstance(row, Timed)
        ]
        text += markdown(("measured", "pprjax", "beside it", "times better", "runs"), rows)
        for name, own in OWN_TABLES.items():
            text += own(latest[name]) if name in latest else []
    if all(line["machine"].get("platform", "cpu") == "cpu" for line in lines):
        text.append("No figures have been measured on a GPU yet; `bench/gpu.sh FILE.jsonl` measures them.\n")
    return "\n" + "\n".join(text) + "\n"


def place(line: Line) -> str:
    machine = line["machine"]
    device = "" if machine.get("platform", "cpu") == "cpu" else f"{machine['device']}, "
    return f"{device}{machine['cores']} cores of {machine['processor']}, jax {machine['jax']}"


def kind(name: str) -> str:
    """The benchmark that a line is of: `trained_1000` is of `trained`, `quality_plain` of `quality`."""
    return name if name in ORDER else name.split("_")[0]


def order(name: str) -> tuple[int, int]:
    size = name.removeprefix("trained_")
    return ORDER.index(kind(name)), int(size) if size.isdigit() else 0


PAGES = {"docs/measured.md": tables, "README.md": highlights}


if __name__ == "__main__":
    main()
