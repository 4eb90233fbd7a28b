"""What the pages show of each benchmark: its rows in the table of all."""

from __future__ import annotations

import functools

import numpy as np
from written import Line, gib, number, percent, ratio, seconds, shares, spread

Row = tuple[str, str, str, str]  # what is measured; pprjax; what stands beside it; how many times better


class Timed(Row):
    """A row of times, which another run would not give again: it is shown where there are enough runs."""


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
    best = functools.reduce(np.maximum, [rate for way, rate in rates.items() if way.startswith("rapidfuzz")])
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
    return [(f"peak memory with {line['originals']:,} originals", gib(line["peak_gib"]), "", "")]


def generic(line: Line) -> list[Row]:
    rows = []
    for cell, figures in line["cells"].items():
        ours = figures["programs"]["pprjax"]
        for program, run in figures["programs"].items():
            if program != "pprjax":
                what = f"within 1 % (greedy within 5 %) after {seconds(figures['pprjax_alone_s'])} alone, λ {cell}"
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
    rows = []
    for weight, case in temperature_by_weight(line).items():
        learned = f"learner {percent(case['learned_at_least_beam'])}; beams better than it by "
        learned += f"{number(case['learned_mean_shortfall'])} of {number(case['R_beam'])} on average"
        steps = f"{number(line['search_steps'])} classifier steps against {number(line['classifier_steps'])}"
        of = f"years at least as good as the best of four beams, {steps}, link, λ 10/{weight:g}"
        rows.append((of, percent(case["at_least_beam"]), learned, ""))
    largest = f"{line['largest_shortfall']:.3f}"
    return [*rows, ("the largest R by which one of them falls short", largest, "", "")]


def temperature_by_weight(line: Line) -> dict[float, dict[str, float]]:
    """Means over both directions for each λ_policy; `shortfall` is the learner's, a share of the beam search's R."""
    by_weight = {}
    for weight in dict.fromkeys(case["λ_policy"] for case in line["cases"]):
        cases = [case for case in line["cases"] if case["λ_policy"] == weight]
        names = ("at_least_beam", "learned_at_least_beam", "learned_mean_shortfall", "R_beam")
        means = {name: sum(case[name] for case in cases) / len(cases) for name in names}
        by_weight[weight] = means | {"shortfall": means["learned_mean_shortfall"] / means["R_beam"]}
    return by_weight


def years(line: Line) -> list[Row]:
    num = sum(case["years"] for case in line["cases"])
    beam, beamed = (sum(case[name] for case in line["cases"]) for name in ("beam_reaches", "beam_years"))
    most = max(case["beam_calls"] for case in line["cases"])
    beside = f"a beam of at most {number(most)} steps reaches it in {percent(beam / beamed)} of {beamed}"
    if "learned_reaches" in line["cases"][0]:
        learned = sum(case["learned_reaches"] for case in line["cases"])
        beside += f", a learner of {number(line['cases'][0]['learned_calls'])} in {percent(learned / num)}"
    return [
        (
            f"years proved to be the best (regret, six λ pairs, {number(line['calls'])} classifier steps at most)",
            percent(line["share_proved"]),
            beside,
            "",
        )
    ]


def sepsis(line: Line) -> list[Row]:
    """Beside what was published, scored in the same way."""
    outcome, *how = line["bench"].removeprefix("sepsis_").split("_")
    of = f"sepsis, outcome {outcome}{', P_A of all traces' * ('plain' in how)}{', own steps free' * ('free' in how)}"
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
        Timed((f"{of}: a trace", seconds(line["seconds_per_original"]), "", "")),
    ]


def mario(line: Line) -> list[Row]:
    one = f"one emulator {number(line['played_one_per_s'])}"
    return [
        Timed(
            (
                "Mario: new steps of four frames/s, two emulators",
                number(line["played_two_per_s"]),
                one,
                ratio(line["ratio"]),
            )
        ),
        Timed(("Mario: remembered steps/s through the callback", number(line["remembered_per_s"]), "", "")),
        Timed(("Mario: steps/s of the exported table", number(line["table_per_s"]), "", "")),
    ]


def logs(line: Line) -> list[Row]:
    held = f", held to {len(line['rules'])} rule{'s' * (len(line['rules']) > 1)}" if "rules" in line else ""
    what = f"{line['paths']:,} logged paths, file to file{held}"
    rows: list[Row] = [Timed((f"{what}, certified", seconds(60 * line["minutes"]), "", ""))]
    rows.append((f"{what}, peak memory", gib(line["peak_gib"]), "", ""))
    if "within_2_percent" in line:
        learned = f"{what}, {line['num_learned']:,} of them learned"
        rows.append(Timed((learned, seconds(60 * line["learned_minutes"]), "", "")))
        rows.append((f"{what}, learned within 2 % of the certificate", percent(line["within_2_percent"]), "", ""))
    return rows


def sparse(line: Line) -> list[Row]:
    what = f"a log of {line['states']:,} states, {line['steps']:,} distinct steps and {line['paths']:,} paths"
    what = f"{what} of up to {line['longest']:,}"
    return [
        Timed((f"{what}, file to file", seconds(line["seconds"]), "", "")),
        (f"{what}, peak memory", gib(line["peak_gib"]), "", ""),
        (f"{what}, proved of {line['answered']:,} answers", percent(line["proved"] / line["answered"]), "", ""),
    ]


def alignments(line: Line) -> list[Row]:
    theirs = f"Ebi {seconds(line['ebi_s_per_trace'])}"
    same = f"alignments of {line['traces']} traces with a Markov model: as few deviations as Ebi finds"
    return [
        (same, percent(line["same_optimum"]), "", ""),
        Timed(("one of them", seconds(line["ours_s_per_trace"]), theirs, ratio(line["times"]))),
    ]


def frontier(line: Line) -> list[Row]:
    worlds, grid = line["worlds"], line["grid"]
    rows = [
        (
            f"certified frontiers of {worlds['worlds']} random worlds: right at so many numbers of edits",
            percent(worlds["equal"]),
            f"brute force, at {number(worlds['numbers_of_edits'])} of them",
            "",
        ),
        Timed(
            (
                f"certified frontiers of {grid['originals']:,} routes",
                seconds(grid["frontier_s"]),
                f"certificates at one λ_path {seconds(grid['certificates_s'])}",
                ratio(1 / grid["ratio"]),
            )
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


def sequences(line: Line) -> list[Row]:
    what = f"frontiers of {line['worlds']} sequence worlds by search, judge and agent LSTMs: right"
    proved = line["proved"]
    beside = f"brute force, at {number(line['numbers_of_edits'])} numbers of edits; proved under regret "
    return [(what, percent(line["right"]), f"{beside}{percent(proved['regret'])}, link {percent(proved['link'])}", "")]


def text(line: Line) -> list[Row]:
    cells, at_least = line["beside_beam"], at_least_beam(line)
    worst = max(cell["largest_shortfall"] for cell in cells)
    calls = sum(cell["calls"] for cell in cells) / len(cells)
    return [
        Timed(("a sentence's ladder, by one author, in sentences/s", number(1 / line["seconds_each"]), "", "")),
        (
            f"text: R at least a plain beam search's, {len(cells)} cells of {line['compared']} sentences",
            percent(at_least),
            f"as many calls, {calls:,.0f}; short by {percent(worst, 2)} at most",
            "",
        ),
        (
            f"text: sentences turned with at most two edits, and proved that no fewer do, of {line['sentences']}",
            percent(line["fewest_proved"]),
            "",
            "",
        ),
    ]


def at_least_beam(line: Line) -> float:
    """The share over all cells, which have as many sentences each."""
    return sum(cell["at_least_beam"] for cell in line["beside_beam"]) / len(line["beside_beam"])


def clinic(line: Line) -> list[Row]:
    mean, least = line["mean"], percent(line["least"])
    returns, published = line["returns"], line["published"]
    return [
        (
            "clinic: the return of " + ", ".join(returns),
            ", ".join(f"{value:.3f}" for value in returns.values()),
            "published " + ", ".join(f"{published[name]:.2f}" for name in returns),
            "",
        ),
        (
            f"clinic, {line['patients']} patients who died: fresh runs of the recourse's treatments that survive",
            percent(mean["plan_fresh"]),
            f"of their own treatments {percent(mean['plan_own'])}",
            "",
        ),
        (
            f"the same where {least} must, of {line['answered_sure']} that have an answer",
            percent(mean["plan_sure"]),
            "",
            "",
        ),
        (
            "the same of the learned policy, which reacts",
            percent(mean["policy_fresh"]),
            f"clinicians {percent(mean['clinicians'])}, best without a limit of time {percent(mean['optimal'])}",
            "",
        ),
        (
            "with the noise of that day: the learned policy survives",
            percent(mean["policy_observed"]),
            f"BL1, 3 changes at most {percent(mean['bl1'])}",
            "",
        ),
    ]


def chance(line: Line) -> list[Row]:
    words = {"learn": "learned in", "bl1": "planned in by BL1", "observed": "with the noise of a path, learned in"}
    rows = []
    for uses in line["worlds"].values():
        states, actions, width = next(iter(uses.values()))["shape"]
        world = f"peak memory of a world of {states:,} states × {actions} actions × {width} next states"
        rows += [(f"{world}, {words[use]}", gib(found["peak_gib"]), "", "") for use, found in uses.items()]
    return rows


def _share(x: float) -> str:
    return f"{100 * x:.0f} %" if x >= 0.1 else f"{100 * x:.2g} %"


def continuous(line: Line) -> list[Row]:
    rows = []
    for name, world in line["worlds"].items():
        share = spread(np.array(world["gap"]) / np.abs(world["reward"]), _share)
        changed = spread(world["changed_actions"], lambda x: f"{x:.0f}")
        found = f"{percent(world['met'])}, {changed} actions changed, gap {share} of R"
        beside = f"learned {percent(world['learned_met'])}" if "learned_met" in world else ""
        rows.append((f"{name}, states as vectors, {line['originals']} originals: the goal met", found, beside, ""))
    return rows


ROWS = {
    "continuous": continuous,
    "clinic": clinic,
    "chance": chance,
    "quality": quality,
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
    "sequences": sequences,
    "alignments": alignments,
    "log_recourse": logs,
    "sparse_logs_gps": sparse,
    "sparse_logs_hub": sparse,
    "sparse_logs_wide": sparse,
    "sparse_logs_luck": sparse,
    "log_recourse_rules": logs,
    "log_recourse_learned": logs,
}
