"""The tables of benchmarks whose figures fill more than rows in the table of all."""

from __future__ import annotations

import functools

import numpy as np
from rows import ROWS
from written import Line, markdown, percent, runs, seconds


def reference(line: Line) -> list[str]:
    """Programs that come within 1 % of the optimum: a table for each cell."""
    text = []
    for cell, programs in line["cells"].items():
        rows = []
        for name, run in programs.items():
            capped = "> " if "cap_s" in run and np.min(run["within_1"]) < 1 else ""
            took = [capped + seconds(run[key]) for key in ("alone_s", "each_s")]
            rows.append((name, *took, percent(run["within_1"]), str(run["originals"])))
        compiling = functools.reduce(np.maximum, [run["compile_s"] for run in programs.values() if "compile_s" in run])
        text += [
            f"Time of a run, and how many come within 1 % of the certified optimum, λ {cell}, flag reached, "
            f"{runs(line)}. The first call of a setting compiles, for up to {seconds(compiling)} more.\n",
            *markdown(("", "an original alone", "each, on two cores", "within 1 %", "originals"), rows),
        ]
    one, two = (seconds(line["update_s"][threads]) for threads in "12")
    return [
        *text,
        f"A minibatch takes PyTorch {one} with one thread and {two} with two; two originals have one each.\n",
    ]


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
        f"λ_path/λ_policy, flag reached, {size} originals a cell, {line['iterations']} iterations, {runs(line)}.\n",
        *markdown(("", *(f"λ {c}" for c in cells), "an original"), rows),
    ]


def voices(line: Line) -> list[str]:
    """What comes of rewriting sentences: tables of their own."""
    models = list(line["originals"])
    outcomes = []
    for point in ("first", "marked"):
        for row in line[point]:
            judged = [percent(row[share]) for share in ("flipped", "other_flipped", "style_share", "repeats a pair")]
            fluent = [f"{row[model]:,.0f}" for model in models]
            outcomes.append((point, row["author"], f"{row['distance']:.2f}", *judged, *fluent))
    originals = " and ".join(f"{value:,.0f} under {model}" for model, value in line["originals"].items())
    beside = [
        (
            *(row["habit"], f"{row['lambda_path']:g}/{row['lambda_policy']:g}", row["author"]),
            *(f"{row['R']:.3g}", f"{row['R_beam']:.3g}", percent(row["at_least_beam"])),
            *(percent(row["largest_shortfall"], 2), f"{row['calls']:,.0f}", f"{row['beam_calls']:,.0f}"),
        )
        for row in line["beside_beam"]
    ]
    before = [
        (
            *(f"{row['lambda_path']:g}", row["grader"], f"{row['pairs']}"),
            *(f"{row['ours']:.3g}", f"{row['theirs']:.3g}", f"{row['low']:.2g} to {row['high']:.2g}"),
        )
        for row in line.get("before", [])
    ]
    told = (
        "What graders that had no part in it say of the learner's rewritings, which took 57,024 calls of the language "
        "model each, and of the best with at most as many edits from the ladders: means, and the difference with its "
        "range of 95 % over resampled pairs.\n"
    )
    header = ("λ_path", "grader", "pairs", "search", "learner", "difference")
    return [
        f"{line['sentences']} sentences rewritten, the first point of each ladder and the marked one (λ "
        f"{line['lambda_path']:g}/{line['lambda_policy']:g}): the words edited; how many have the wanted sentiment for "
        "VADER, which was asked, and TextBlob, which was not; how many a classifier of style takes for their author's "
        f"(of sentences of the corpora it knows {percent(line['style_accuracy'], 3)}); how many repeat a pair of "
        f"words; and their median perplexity, which is {originals} for the originals.\n",
        *markdown(("point", "author", "edited", "VADER", "TextBlob", "own style", "repeats", *models), outcomes),
        f"{line['compared']} of them beside a plain beam search over the same vocabulary: R on average over those that "
        "the beam answers, how often the search's is at least the beam's, how far it is short at most, and the calls "
        "of the language model that each took on average; the judge was called as often.\n",
        *markdown(("habit", "λ", "author", "R", "beam's", "≥ beam's", "short by", "calls", "beam's"), beside),
        *([told, *markdown(header, before)] if before else []),
    ]


def learners(line: Line) -> list[str]:
    """What other learners find at as many steps."""
    rows = [
        (
            *(row["world"], row["learner"], percent(row["met_goal"], 3), percent(row["within_1"], 3)),
            "" if row["median_short"] is None else percent(np.round(row["median_short"], 5), 2),
        )
        for row in line["rows"]
    ]
    header = ("world", "learner", "meets the goal", "within 1 %", "short by")
    return [
        f"{line['steps']:,} steps of the world for each learner and original, {line['originals']} originals a world: "
        "how often the best path sampled meets the goal; how often its R is within 1 % of the best known, the "
        "certificate's on the grid and the search's elsewhere; and the median share by which it is less. "
        f"Of {runs(line)}.\n",
        *markdown(header, rows),
    ]


OWN_TABLES = {"reference_torch": reference, "ablation": ablation, "learners": learners, "text": voices}
ORDER = [*ROWS, *OWN_TABLES]  # "text" has rows and tables
