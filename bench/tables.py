"""Write the measured figures into the docs. `python bench/tables.py bench/figures.jsonl`

Reads the JSON lines that the benchmarks print, of which the latest of each benchmark counts, and writes between the
markers `<!-- figures -->` and `<!-- /figures -->`: all tables, one for each machine, into docs/measured.md, and a few
lines into README.md.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"

Line = dict[str, Any]
Row = tuple[str, str, str, str]  # what is measured; pprjax; what stands beside it; how many times better


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


def highlights(lines: list[Line]) -> str:
    """Markdown: what a reader of the README should know, in six lines."""
    latest = {line["bench"]: line for line in lines}
    quality, plain, text = latest["quality"], latest["quality_plain"], latest["text"]
    certificates = next(case for case in latest["exact"]["cases"] if case["goal"] == "reached")["certificates_per_s"]
    rates = latest["edit_distance"]["pairs_per_second"]
    short = temperature_by_weight(latest["temperature"])
    shortfalls = ", ".join(f"{percent(case['shortfall'], 2)} at {weight:g}" for weight, case in short.items())
    log = latest["log_recourse"]
    points = [
        f"The learner comes within 1 % of the certified optimum in {percent(quality['within_1_flag'])} of the cases, "
        f"over {len(quality['cells']['flag'])} pairs of weights. The printed algorithm does in "
        f"{percent(plain['within_1_flag'])}.",
        f"When 256 originals are learned together, each takes {seconds(latest['batching']['seconds_each_of_256'])}. A "
        f"certificate takes {seconds(1 / certificates)}.",
        f"{log['paths']:,} logged paths take {log['minutes']:.1f} minutes from file to file, certified, and "
        f"{log['peak_gib']:.2g} GiB of memory.",
        f"Edit distances: {number(rates['levenshtein'])} a second, {ratio(latest['edit_distance']['ratio'])} times as "
        "many as rapidfuzz.",
        f"Years: the learner's mean R is below that of a beam search with as many classifier calls, by {shortfalls} "
        "(λ_policy).",
        f"Text: the learner's R is at least that of a beam search in {percent(text['at_least_beam'])} of the cases.",
    ]
    return "\n" + "\n".join(f"* {point}" for point in points) + "\n\n"


def tables(lines: list[Line]) -> str:
    """Markdown: for each machine its figures, and what each part adds where that was measured."""
    machines: dict[str, dict[str, Line]] = {}
    for line in lines:
        machines.setdefault(place(line), {})[line["bench"]] = line
    text = []
    for machine, latest in machines.items():
        dates = sorted({line["date"] for line in latest.values()})
        text.append(f"{machine}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}:\n")
        rows = [row for name in sorted(latest, key=order) for row in ROWS[kind(name)](latest[name])]
        text += markdown(("measured", "pprjax", "beside it", "times better"), rows)
        if "ablation" in latest:
            text += ablation(latest["ablation"])
        if "text" in latest:
            text += voices(latest["text"])
    if all(line["machine"].get("platform", "cpu") == "cpu" for line in lines):
        text.append("No figures have been measured on a GPU yet; `bench/gpu.sh FILE.jsonl` measures them.\n")
    return "\n" + "\n".join(text) + "\n"


def place(line: Line) -> str:
    machine = line["machine"]
    device = "" if machine.get("platform", "cpu") == "cpu" else f"{machine['device']}, "
    return f"{device}{machine['cores']} cores of {machine['processor']}, jax {machine['jax']}"


def kind(name: str) -> str:
    """The benchmark that a line is of: `trained_1000` is of `trained`, `quality_plain` of `quality`."""
    return name if name in ROWS else name.split("_")[0]


def order(name: str) -> tuple[int, int]:
    size = name.removeprefix("trained_")
    return list(ROWS).index(kind(name)), int(size) if size.isdigit() else 0


def quality(line: Line) -> list[Row]:
    which = "" if line["algorithm"] == "mended" else ", plain algorithm"
    cells = len(line["cells"]["flag"])
    rows = [
        (f"within 1 % of the certified optimum, {cells} cells of λ, {words}{which}", percent(line[key]), "", "")
        for key, words in (("within_1_flag", "flag reached"), ("within_1_none", "no goal"))
    ]
    if "many" in line:
        rows.append((f"the same for {line['many']} originals at λ 0.1/0.1", percent(line["within_1_many"]), "", ""))
    return rows


def rollouts(line: Line) -> list[Row]:
    theirs = f"gymnax FrozenLake {number(line['frozen_lake_steps_per_s'])}"
    length = f", of lanes that end after {line['mean_length']:.1f} of 40 steps" if "mean_length" in line else ""
    rows = [(f"rollout steps/s, no network{length}", number(line["pprjax_steps_per_s"]), theirs, ratio(line["ratio"]))]
    if "endless_ratio" in line:
        ours, more = number(line["endless_steps_per_s"]), ratio(line["endless_ratio"])
        rows.append(("the same, of lanes that do not end", ours, theirs, more))
    return rows


def distances(line: Line) -> list[Row]:
    rates = line["pairs_per_second"]
    best = max(rate for way, rate in rates.items() if way.startswith("rapidfuzz"))
    return [
        (
            "edit distances/s",
            number(rates["levenshtein"]),
            f"rapidfuzz, its fastest {number(best)}",
            ratio(line["ratio"]),
        )
    ]


def certificates(line: Line) -> list[Row]:
    return [
        (
            f"certificates/s, λ {case['lambda_path']:g}/{case['lambda_policy']:g}, goal: {case['goal']}",
            number(case["certificates_per_s"]),
            "",
            "",
        )
        for case in line["cases"]
        if (case["lambda_path"], case["lambda_policy"]) == (0.1, 0.1)
    ]


def trained(line: Line) -> list[Row]:
    what = f"recourses/s, {line['originals']:,} originals, {line['iterations']} iterations"
    floor = f"its floor, bytes over bandwidth: {number(line['originals'] / (line['seconds'] / line['times_floor']))}"
    return [(what, number(line["recourses_per_s"]), floor, ratio(1 / line["times_floor"]))]


def batching(line: Line) -> list[Row]:
    ours, alone = line["seconds_each_of_256"], line["seconds_alone"]
    return [("an original among 256", seconds(ours), f"alone {seconds(alone)}", ratio(alone / ours))]


def batching_memory(line: Line) -> list[Row]:
    return [(f"peak memory with {line['originals']:,} originals", f"{line['peak_gib']:.2g} GiB", "", "")]


def reference(line: Line) -> list[Row]:
    rows = []
    for cell, figures in line["cells"].items():
        ours = figures["pprjax"]
        among, best = min(ours["seconds_each"].items(), key=lambda item: item[1])
        what = f"to 1 % of the optimum, λ {cell}, an original among {among}"
        for size, took in ours["seconds_each"].items():
            if size != among:
                rows.append((what, seconds(best), f"pprjax, {size} at once {seconds(took)}", ratio(took / best)))
        for program, run in figures["torch"].items():
            missed = run["originals"] - run["reached"]
            more = f"; {missed} of {run['originals']} not within {run['cap_s']:g} s" if missed else ""
            beside = f"PyTorch {program} {'> ' if missed else ''}{seconds(run['mean_s'])}{more}"
            rows.append((what, seconds(best), beside, f"{'> ' if missed else ''}{ratio(run['mean_s'] / best)}"))
    return rows


def generic(line: Line) -> list[Row]:
    rows = []
    for cell, figures in line["cells"].items():
        ours = figures["programs"]["pprjax"]
        for program, run in figures["programs"].items():
            if program != "pprjax":
                what = f"within 1 % (greedy within 5 %) after {figures['pprjax_alone_s']:.2g} s alone, λ {cell}"
                rows.append((what, shares(ours), f"Stable-Baselines3 {program} {shares(run)}", ""))
    return rows


def changes(line: Line) -> list[Row]:
    took = line["seconds"]
    return [
        (
            f"baseline BL1, {name}",
            seconds(took[name]),
            f"loops {seconds(took[f'{name.split(",")[0]}, loops'])}",
            ratio(r),
        )
        for name, r in line["ratios"].items()
    ]


def temperature(line: Line) -> list[Row]:
    return [
        (
            f"years at least as good as beam search's, equal calls, λ 10/{weight:g}",
            percent(case["at_least_beam"]),
            f"beams better by {number(case['mean_shortfall'])} of {number(case['R_beam'])} on average",
            "",
        )
        for weight, case in temperature_by_weight(line).items()
    ]


def temperature_by_weight(line: Line) -> dict[float, dict[str, float]]:
    """Means over both directions for each λ_policy; `shortfall` is a share of the beam search's R."""
    by_weight = {}
    for weight in dict.fromkeys(case["λ_policy"] for case in line["cases"]):
        cases = [case for case in line["cases"] if case["λ_policy"] == weight]
        means = {
            name: sum(case[name] for case in cases) / len(cases)
            for name in ("at_least_beam", "mean_shortfall", "R_beam")
        }
        by_weight[weight] = means | {"shortfall": means["mean_shortfall"] / means["R_beam"]}
    return by_weight


def years(line: Line) -> list[Row]:
    num = sum(case["years"] for case in line["cases"])
    reached = sum(case["beam_reaches"] for case in line["cases"])
    return [
        (
            f"years proved to be the best (regret, six λ pairs, {number(line['calls'])} classifier steps at most)",
            percent(line["share_proved"]),
            f"a beam of {number(line['cases'][0]['beam_calls'])} steps reaches it in {percent(reached / num)}",
            "",
        )
    ]


def sepsis(line: Line) -> list[Row]:
    """Beside what was published, scored in the same way."""
    outcome, *plain = line["bench"].removeprefix("sepsis_").split("_")
    of = f"sepsis, outcome {outcome}{', P_A of all traces' * bool(plain)}"
    theirs = line["published"]
    shorter = ratio(theirs["dl_edit"] / line["dl_edit"])
    near = f"{of}: training traces near it that the judge takes for 0, after {line['edits']:.2g} edits"
    return [
        (
            f"{of}: traces turned, rules broken, of {line['originals']}",
            f"{percent(line['flipped'])}, {percent(line['violations_percent'] / 100)}",
            f"published {percent(theirs['convinces'])}, {percent(theirs['violations_percent'] / 100)}",
            "",
        ),
        (f"{of}: fewest edits, proved in {percent(line['proved'])}", f"{line['fewest_edits']:.2f}", "", ""),
        (near, percent(line["y_nn"]), f"published {percent(theirs['y_nn'])}", ""),
        (
            f"{of}: edits of padded rows, as published",
            f"{line['dl_edit']:.2g}",
            f"published {theirs['dl_edit']:.2g}",
            shorter,
        ),
        (f"{of}: a trace", seconds(line["seconds_per_original"]), "", ""),
    ]


def mario(line: Line) -> list[Row]:
    one = f"one emulator {number(line['played_one_per_s'])}"
    return [
        (
            "Mario: new steps of four frames/s, two emulators",
            number(line["played_two_per_s"]),
            one,
            ratio(line["ratio"]),
        ),
        ("Mario: remembered steps/s through the callback", number(line["remembered_per_s"]), "", ""),
        ("Mario: steps/s of the exported table", number(line["table_per_s"]), "", ""),
    ]


def logs(line: Line) -> list[Row]:
    held = f", held to {len(line['rules'])} rule{'s' * (len(line['rules']) > 1)}" if "rules" in line else ""
    what = f"{line['paths']:,} logged paths, file to file{held}"
    rows = [(f"{what}, certified", seconds(60 * line["minutes"]), "", "")]
    rows.append((f"{what}, peak memory", f"{line['peak_gib']:.2g} GiB", "", ""))
    if "within_2_percent" in line:
        learned = f"{what}, {line['num_learned']:,} of them learned"
        rows.append((learned, seconds(60 * line["learned_minutes"]), "", ""))
        rows.append((f"{what}, learned within 2 % of the certificate", percent(line["within_2_percent"]), "", ""))
    return rows


def sparse(line: Line) -> list[Row]:
    what = f"a log of {line['states']:,} states, {line['steps']:,} distinct steps and {line['paths']:,} paths"
    what = f"{what} of up to {line['longest']:,}"
    return [
        (f"{what}, file to file", seconds(line["seconds"]), "", ""),
        (f"{what}, peak memory", f"{line['peak_gib']:.2g} GiB", "", ""),
        (f"{what}, proved of {line['answered']:,} answers", percent(line["proved"] / line["answered"]), "", ""),
    ]


def frontier(line: Line) -> list[Row]:
    worlds, grid = line["worlds"], line["grid"]
    rows = [
        (
            f"certified frontiers of {worlds['worlds']} random worlds: right at so many numbers of edits",
            percent(worlds["equal"]),
            f"brute force, {seconds(worlds['brute_force_s'])} beside {seconds(worlds['exact_s'])}",
            "",
        ),
        (
            f"certified frontiers of {grid['originals']:,} routes",
            seconds(grid["frontier_s"]),
            f"certificates at one λ_path {seconds(grid['certificates_s'])}",
            ratio(1 / grid["ratio"]),
        ),
    ]
    return rows + [
        (
            f"learned frontiers at λ_policy {case['lambda_policy']:g}: points within 1 % of the certified ones",
            percent(case["within_1_percent"]),
            "",
            "",
        )
        for case in line["learned"]
    ]


def text(line: Line) -> list[Row]:
    of = f"{line['sentences_compared']} sentences rewritten by two authors at two λ_path"
    return [
        (f"{of}: R at least {words}, equal calls", percent(line[f"at_least_{search}"]), "", "")
        for search, words in (("samples", "the best of as many samples"), ("beam", "a beam search's"))
    ]


ROWS = {
    "quality": quality,
    "reference_torch": reference,
    "generic_dqn": generic,
    "rollouts": rollouts,
    "edit_distance": distances,
    "exact": certificates,
    "trained": trained,
    "batching": batching,
    "batching_memory": batching_memory,
    "action_changes": changes,
    "temperature": temperature,
    "years": years,
    "sepsis": sepsis,
    "mario": mario,
    "text": text,
    "frontier": frontier,
    "log_recourse": logs,
    "log_recourse_rules": logs,
    "log_recourse_learned": logs,
    "sparse_logs_gps": sparse,
    "sparse_logs_hub": sparse,
    "sparse_logs_wide": sparse,
    "ablation": lambda line: [],
}


def ablation(line: Line) -> list[str]:
    """What each part adds: a table of its own."""
    cells = list(line["variants"]["default"]["within_1"])
    rows = []
    for name, variant in line["variants"].items():
        both = [f"{percent(variant['within_1'][c])} ({percent(variant['greedy_within_5'][c])})" for c in cells]
        rows.append((name, *both, seconds(variant["seconds_each"])))
    size = line["routes"] * line["drivers"]
    return [
        f"What each part adds: the share of originals within 1 % of the optimum (greedy path within 5 %) at "
        f"λ_path/λ_policy, flag reached, {size} originals a cell, {line['iterations']} iterations.\n",
        *markdown(("", *(f"λ {c}" for c in cells), "an original"), rows),
    ]


def voices(line: Line) -> list[str]:
    """What comes of rewriting sentences: two tables of their own."""

    def case(row: Line) -> tuple[str, str]:
        return row["author"], f"{row['lambda_path']:g}"

    known = collections.defaultdict(lambda: "not measured")
    known |= {name: f"{value:,.0f}" for name, value in (line["perplexity"] or {}).items()}
    outcomes = []
    weights = {"summary": line["lambda_policy"], "heavier": line["heavier_lambda_policy"]}
    for name, weight in weights.items():
        for row in line[name]:
            author, lambda_path = case(row)
            shares = [percent(row[share]) for share in ("flipped", "other_flipped", "own")]
            fluency = known[f"{author}, λ_path {lambda_path}"] if name == "summary" else ""
            outcomes.append((f"{weight:g}", author, lambda_path, f"{row['distance']:.1f}", *shares, fluency))
    beside = []
    for row in line["compared"]:
        edited = f"{row['distance']:.1f}, {row['beam_distance']:.1f}"
        own = f"{percent(row['own'])}, {percent(row['beam_own'])}"
        rewards = [f"{row[search]:.3g}" for search in ("ppr", "samples", "beam")]
        shares = [percent(row[f"at_least_{search}"]) for search in ("samples", "beam")]
        beside.append((*case(row), *rewards, *shares, edited, own))
    shares = [
        f"{percent(sum(row['own'] for row in line[name]) / len(line[name]))} at {weight:g}"
        for name, weight in weights.items()
    ]
    return [
        f"{line['sentences']} sentences rewritten: the words edited; how many have the wanted sentiment for VADER, "
        "which was asked, and TextBlob, which was not; how many are likelier under their own author's model than under "
        f"the other's ({', '.join(shares)}); and their median perplexity under SmolLM2-135M, {known['originals']} for "
        "the originals.\n",
        *markdown(
            ("λ_policy", "author", "λ_path", "edited", "VADER", "TextBlob", "own author", "perplexity"), outcomes
        ),
        f"{line['sentences_compared']} of them at λ_policy {line['lambda_policy']:g}, beside the best of samples from "
        "the author's model and a beam search, each with as many steps of it: R on average, how often PPR's is at "
        "least theirs, and, of PPR's rewritings and the beam's, the words edited and how many are likelier under their "
        "own author.\n",
        *markdown(
            ("author", "λ_path", "R", "samples'", "beam's", "≥ samples'", "≥ beam's", "edited, beam's", "own, beam's"),
            beside,
        ),
    ]


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines] + [""]


def number(x: float) -> str:
    return f"{x / 1e6:.3g} million" if x >= 1e6 else f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def seconds(x: float) -> str:
    return f"{x:.3g} s" if x >= 1 else f"{1e3 * x:.3g} ms"


def percent(x: float, digits: int = 4) -> str:
    return f"{100 * x:.{digits}g} %"


def ratio(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}"


def shares(run: dict[str, float]) -> str:
    return f"{percent(run['within_1'])} ({percent(run['greedy_within_5'])})"


PAGES = {"docs/measured.md": tables, "README.md": highlights}


if __name__ == "__main__":
    main()
