"""How good are rewritings of sentences, and are they the best that one can find?

python bench/text.py --corpus asv fairytales=FILE [--before FILE.parquet] [--write FILE.parquet] [--gguf FILE]

The authors are trained on the even sentences of their corpora. The graders, which have no part in the choice, are
fitted to the odd ones: `grading.style` says whose a sentence is, `grading.KneserNey` how likely. SmolLM2 (--gguf) has
seen neither.

* `first`, `marked`: of every sentence and both authors the first point of the ladder, and the one that the command
  marks.
* `beside_beam`: R at one pair of λ beside a plain beam that calls the language model and the judge as often, or more.
* `before` (--before: a table with the columns sentence, author, towards, lambda_path, status, recourse and distance):
  the same graders on rewritings of another program, beside the best of at most as many edits.

The language model is called once for each prefix that is kept, and so is the judge; both programs count both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grading
import numpy as np
import polars as pl
import tyro
from plain_beam import beam_search
from pprjax_envs import text
from pprjax_envs.text.agents import Author
from pprjax_envs.text.corpus import Corpus, as_text, words_of
from pprjax_envs.text.experiment import Judges, ladders, summarize
from pprjax_envs.text.judges import VADER, TextBlob
from pprjax_envs.text.settings import SETTINGS
from report import finish, table

from pprjax.config import Config
from pprjax.ladder import Wanted
from pprjax.paths import Paths
from pprjax.search.points import search_points
from pprjax.task import Task

PAIRS = ((10.0, 0.1), (10.0, 0.5), (0.1, 0.1))
"""λ_path and λ_policy at which R stands beside the beam's."""

TOLERANCE = 1e-4
"""Of R: below it two rewritings are equally good."""

JUDGED = (0.0, 1.0)
"""What a plain beam adds to a prefix for the judge's opinion of it. Both are run, each with half of the calls, and the
better sentence counts."""

OPPOSITE = {"negative": "positive", "positive": "negative"}


def main(
    corpus: tuple[str, str],
    sentences: Path = Path("bench/sentences.json"),
    before: Path | None = None,
    write: Path | None = None,
    gguf: Path | None = None,
    compared: int = 20,
) -> None:
    groups = json.loads(sentences.read_text(encoding="utf-8"))
    wanted = [(s, OPPOSITE[name.partition("_")[0]]) for name, group in groups.items() for s in group]
    corpora = [text.corpus.named(spec) for spec in corpus]
    authors = [text.trained(Corpus(c.name, c.sentences[::2]))[0] for c in corpora]
    graders = Graders(*(c.sentences[1::2] for c in corpora), names=[c.name for c in corpora], gguf=gguf)
    judges = Judges(asked=VADER(), other=TextBlob())
    ladders(authors, [wanted[0], max(wanted, key=lambda pair: len(pair[0]))], judges)  # compiles both sizes
    begin = time.perf_counter()
    found, rejected = ladders(authors, wanted, judges)
    seconds = time.perf_counter() - begin
    if write is not None:
        found.write_parquet(write)
    first = found.unique(["number", "author"], keep="first", maintain_order=True)
    figures: dict[str, Any] = {
        "corpora": {author.name: float(author.perplexity) for author in authors},
        "sentences": len(wanted),
        "rejected": rejected,
        "seconds_each": seconds / (len(wanted) * len(authors)),
        "lambda_path": SETTINGS.lambda_path,
        "lambda_policy": SETTINGS.lambda_policy,
        "fewest_proved": float((first["fewest"] & (first["distance"] <= 2)).mean()),
        "style_accuracy": graders.style.accuracy,
        "originals": graders.perplexities([words for words, _ in wanted]),
        "first": graders.summary(first),
        "marked": graders.summary(found.filter("chosen")),
    }
    table("first and marked points", [*figures["first"], *figures["marked"]])
    if before is not None:
        figures["before"] = graders.beside(pl.read_parquet(before), found)
        table("beside another program", figures["before"])
    some = wanted[:: -(-len(wanted) // compared)] if compared else []
    figures["compared"] = len(some)
    if some:
        figures["beside_beam"] = [
            row for habit in ("regret", "link") for pair in PAIRS for row in beside_beam(authors, some, habit, pair)
        ]
        table("R beside a plain beam", figures["beside_beam"])
    finish("text", figures)


class Graders:
    """What the odd sentences of two corpora say of rewritings."""

    def __init__(self, *sentences: Sequence[Sequence[str]], names: list[str], gguf: Path | None):
        self.names = names
        self.style = grading.style(*sentences)
        self.model = grading.KneserNey([words for part in sentences for words in part])
        self.large: Any = None
        if gguf is not None:
            from pprjax_envs.text.huggingface import LanguageModel

            self.large = LanguageModel(str(gguf), start="<|endoftext|>")  # as it was trained

    def perplexities(self, texts: Sequence[str]) -> dict[str, float]:
        """The medians over the texts, as they are read, under each model that there is."""
        read = [as_text(words_of(t)) for t in texts]
        medians = {"trigrams": float(np.median([np.exp(-self.model.log_prob(words_of(t))) for t in read]))}
        return medians if self.large is None else medians | {"SmolLM2": float(np.median(self.large.perplexity(read)))}

    def own(self, rows: pl.DataFrame) -> np.ndarray:
        """The probability that the classifier gives to the author of each rewriting."""
        second = self.style.probs([words_of(t) for t in rows["recourse"]])
        return np.where(rows["author"] == self.names[1], second, 1.0 - second)

    def graded(self, rows: pl.DataFrame, judge: Any = TextBlob()) -> dict[str, np.ndarray]:
        """float[N] of each grader, by its name."""
        words = [words_of(t) for t in rows["recourse"]]
        scores = judge(rows["recourse"].to_list())
        reached = [judge.reached(x, towards) for x, towards in zip(scores, rows["towards"], strict=True)]
        return {
            "other judge": np.array(reached, float),
            "own style": self.own(rows),
            "log P of another model": np.array([self.model.log_prob(w) for w in words]),
            "repeats a pair": np.array([grading.repeats(w) for w in words], float),
        }

    def summary(self, rows: pl.DataFrame) -> list[dict[str, Any]]:
        """The means of all that is known of rewritings, of each author."""
        means = []
        for row in summarize(rows).iter_rows(named=True):
            own = rows.filter(author=row["author"])
            graded = {name: float(values.mean()) for name, values in self.graded(own).items()}
            style = float((self.own(own) > 0.5).mean())
            means.append(row | graded | {"style_share": style, **self.perplexities(own["recourse"].to_list())})
        return means

    def beside(self, before: pl.DataFrame, found: pl.DataFrame) -> list[dict[str, Any]]:
        """Every grader on both, at each λ_path of the other program; of ours the best of at most as many edits."""
        rows = []
        for (lambda_path,), theirs in before.group_by("lambda_path", maintain_order=True):
            theirs = theirs.filter(pl.col("status") == "reached_goal").select(
                "sentence", "author", "recourse", "towards", most="distance"
            )
            ours = (
                found.rename({"sentence": "read", "typed": "sentence"})
                .join(theirs.select("sentence", "author", "most"), on=["sentence", "author"])
                .filter(pl.col("distance") <= pl.col("most"))
                .unique(["sentence", "author"], keep="last", maintain_order=True)
            )
            theirs = ours.select("sentence", "author").join(
                theirs, on=["sentence", "author"], how="left", maintain_order="left"
            )
            own, other = self.graded(ours), self.graded(theirs)
            edits = grading.compared(ours["distance"].to_list(), theirs["most"].to_list())
            for name, figures in {
                "edits": edits,
                **{n: grading.compared(own[n], other[n]) for n in own},
            }.items():
                rows.append({"lambda_path": lambda_path, "grader": name, "pairs": len(ours), **figures})
        return rows


def beside_beam(
    authors: Sequence[Author], wanted: Sequence[tuple[str, Any]], habit: Any, pair: tuple[float, float]
) -> list[dict[str, Any]]:
    """R of the search at one pair of λ, and of a plain beam with as many calls of the language model and the judge."""
    config = Config(habit=habit, lambda_path=pair[0], lambda_policy=pair[1])
    rows = []
    for author in authors:
        tasks = [text.task(author, sentence, towards=towards) for sentence, towards in wanted]
        aims = [(task, text.paths(task, [sentence])) for task, (sentence, _) in zip(tasks, wanted, strict=True)]
        members, calls, seconds = (np.array(x) for x in zip(*(searched(*aim, config) for aim in aims), strict=True))
        steps = len(JUDGED) * (tasks[0].horizon - 1)
        widths = 8 * np.rint(calls / (8 * steps)).astype(int)  # of few sizes, which are compiled once
        beamed = [beams(*aim, config, int(width)) for aim, width in zip(aims, widths, strict=True)]
        theirs, beam_seconds = (np.array(x) for x in zip(*beamed, strict=True))
        answered = np.isfinite(theirs)  # few calls may not reach the goal
        rows.append(
            {
                "habit": habit,
                "lambda_path": pair[0],
                "lambda_policy": pair[1],
                "author": author.name,
                "R": float(members[answered].mean()),
                "R_beam": float(theirs[answered].mean()),
                "beam_answers": float(answered.mean()),
                "at_least_beam": float((members >= theirs - TOLERANCE).mean()),
                "largest_shortfall": float((np.maximum(theirs - members, 0.0) / np.abs(theirs))[answered].max()),
                "calls": float(calls.mean()),
                "beam_calls": float(np.mean(widths * steps + len(JUDGED))),
                "seconds": float(np.median(seconds)),
                "beam_seconds": float(np.median(beam_seconds)),
            }
        )
    return rows


def searched(task: Task, original: Paths, config: Config) -> tuple[float, int, float]:
    """R of the search, its calls of the language model, and its seconds."""
    begin = time.perf_counter()
    options: dict[str, Any] = dict(wanted=Wanted(num_distances=task.horizon), calls=0)
    points = search_points(task, original, config.objective, **options)
    value = points.best.value[0]
    reward = (value + config.lambda_path / (1.0 + np.arange(len(value)))).max()
    return float(reward), 1 + int(points.calls[0]) // 2, time.perf_counter() - begin  # each prefix is kept, and ended


def beams(task: Task, original: Paths, config: Config, width: int) -> tuple[float, float]:
    """R of the better of two beams, and their seconds."""
    begin = time.perf_counter()
    reward = max(beam_search(task, original, config, width=width, weight=weight)[0] for weight in JUDGED)
    return reward, time.perf_counter() - begin


if __name__ == "__main__":
    tyro.cli(main)
