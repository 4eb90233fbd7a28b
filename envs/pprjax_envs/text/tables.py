"""The tables that the text command prints."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich import box
from rich.markup import escape
from rich.table import Table

from pprjax_envs.text.experiment import Judges, words_in


def rewritings(table: pl.DataFrame, authors: list[str], judges: Judges) -> Table:
    """Each sentence as it is, then its rewritings as they read and with their edits marked.

    Args:
        table: of `experiment.ladders`, or of `experiment.at`, whose λ_path and R are then shown.
    """
    weighed = "lambda_path" in table.columns
    shown = Table(title=f"Towards {table['towards'][0]}", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    opinions = judges.asked.name, judges.other.name, *(f"log P\n{author}" for author in authors)
    for name in ("author", *(["λ_path"] * weighed), "d", "", "recourse", *(["R"] * weighed), *opinions):
        words = name == "recourse"
        shown.add_column(name, justify="left" if words or name == "author" else "right", no_wrap=not words)
    for _, rows in table.group_by("number", maintain_order=True):
        for (author, sentence), own in rows.group_by("author", "sentence", maintain_order=True):
            shown.add_section()
            first = own.row(0, named=True)
            before = f"{first['judge_before']:.2f}", f"{first['other_before']:.2f}"
            likely = [_each_word(first[f"log_prob_before_{a}"], sentence) for a in authors]
            shown.add_row(author, *[""] * (2 + weighed), f"[italic]{escape(sentence)}[/]", *[""] * weighed, *before,
                          *likely)  # fmt: skip
            for row in own.iter_rows(named=True):
                shown.add_row(*_rewriting(row, authors, weighed))
    return shown


def _rewriting(row: dict, authors: list[str], weighed: bool) -> list[str]:
    edits = marked(words_in(row["sentence"]), words_in(row["recourse"]), row["edits"])
    chosen = row["chosen"] and not weighed
    text = f"[bold]{escape(row['recourse'])}[/]" if chosen else escape(row["recourse"])
    return [
        "",
        *([f"{row['lambda_path']:g}"] if weighed else []),
        str(row["distance"]),
        "→" if chosen else "",
        f"{text}\n{edits}",
        *([f"{row['reward']:.2f}"] if weighed else []),
        f"{row['judge_after']:.2f}" + " !" * (not row["flipped"]),
        f"{row['other_after']:.2f}" + " !" * (not row["other_flipped"]),
        *(_each_word(row[f"log_prob_{a}"], row["recourse"]) for a in authors),
    ]


def _each_word(log_prob: float, text: str) -> str:
    """log P of a sentence, the mean over its words and its end."""
    return f"{log_prob / (len(words_in(text)) + 1):.1f}"


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


def notes(table: pl.DataFrame) -> list[str]:
    """What was read otherwise than it was typed, a line for each such sentence."""
    lines = []
    for row in table.filter(pl.col("marks").list.len() > 0).unique("number", maintain_order=True).iter_rows(named=True):
        marks = " ".join(row["marks"])
        lines.append(
            f"{row['typed']!r} was read as {row['sentence']!r}: {marks} became commas there, or were left out."
        )
    return lines


def means(summary: pl.DataFrame, judges: Judges) -> Table:
    """What `experiment.summarize` says."""
    names = {
        "flipped": judges.asked.name, "other_flipped": judges.other.name, "distance": "d", "s_policy": "s_policy",
        "own": "own voice",
    }  # fmt: skip
    further = [name for name in ("rung", "lambda_path") if name in summary.columns]
    shown = Table(title="Means over the sentences")
    for name in ("author", *further, *names.values()):
        shown.add_column("λ_path" if name == "lambda_path" else name, justify="left" if name == "author" else "right")
    for row in summary.iter_rows(named=True):
        figures = [f"{row[n]:.0%}" if n in ("flipped", "other_flipped", "own") else f"{row[n]:.2f}" for n in names]
        places = [row[n] if isinstance(row[n], str) else f"{row[n]:g}" for n in further]
        shown.add_row(row["author"], *places, *figures)
    return shown
