"""The tables that the text command prints."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich import box
from rich.markup import escape
from rich.table import Table

from pprjax_envs.text.experiment import Judges, words_in


def rewritings(table: pl.DataFrame, authors: list[str], judges: Judges) -> Table:
    """Each sentence as it is, then each rewriting as it reads and with its edits marked."""
    title = f"Towards {table['towards'][0]}"
    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    opinions = judges.asked.name, judges.other.name, *(f"log P\n{author}" for author in authors)
    for name in ("author", "λ_path", "recourse", "d", "R", *opinions):
        words = name == "recourse"
        shown.add_column(name, justify="left" if words or name == "author" else "right", no_wrap=not words)
    for (sentence,), rows in table.group_by("sentence", maintain_order=True):
        shown.add_section()
        first = rows.row(0, named=True)
        likely = [f"{first[f'log_prob_before_{a}']:.1f}" for a in authors]
        shown.add_row("", "", f"[italic]{escape(sentence)}[/]", "", "", f"{first['judge_before']:.2f}",
                      f"{first['other_before']:.2f}", *likely)  # fmt: skip
        for row in rows.iter_rows(named=True):
            edits = marked(words_in(row["sentence"]), words_in(row["recourse"]), row["edits"])
            shown.add_row(
                row["author"],
                f"{row['lambda_path']:g}",
                f"{escape(row['recourse'])}\n{edits}",
                str(row["distance"]),
                f"{row['reward']:.2f}",
                f"{row['judge_after']:.2f}" + " !" * (not row["flipped"]),
                f"{row['other_after']:.2f}" + " !" * (not row["other_flipped"]),
                *(f"{row[f'log_prob_{a}']:.1f}" for a in authors),
            )
    return shown


def marked(sentence: Sequence[str], rewritten: Sequence[str], edits: str) -> str:
    """A rewriting with its edits, in rich's markup: [-deleted-], [+inserted+], and both where a word is replaced."""
    old, new, parts = iter(sentence), iter(rewritten), []
    for edit in edits:
        gone = f"[strike red]-{escape(next(old))}[/]" if edit in "~-" else ""
        come = f"[bold green]+{escape(next(new))}[/]" if edit in "~+" else ""
        if edit == "=":
            next(old)
            come = escape(next(new))
        parts.append(" ".join(filter(None, (gone, come))))
    return " ".join(parts)


def means(summary: pl.DataFrame, judges: Judges) -> Table:
    """What `experiment.summarize` says."""
    names = {
        "flipped": judges.asked.name, "other_flipped": judges.other.name, "distance": "d", "distance_alone": "d alone",
        "s_policy": "s_policy", "own": "own voice",
    }  # fmt: skip
    shown = Table(title="Means over the sentences")
    for name in ("author", "λ_path", *names.values()):
        shown.add_column(name, justify="left" if name == "author" else "right")
    for row in summary.iter_rows(named=True):
        figures = [f"{row[n]:.0%}" if n in ("flipped", "other_flipped", "own") else f"{row[n]:.2f}" for n in names]
        shown.add_row(row["author"], f"{row['lambda_path']:g}", *figures)
    return shown
