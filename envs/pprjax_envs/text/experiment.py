"""Sentences that get another sentiment and keep an author's voice: a ladder for every sentence and author."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from pprjax import frontier
from pprjax.config import Config
from pprjax.constraints import Constraints
from pprjax.logs.edits import alignments
from pprjax.paths import Paths
from pprjax.result import Frontier
from pprjax.reward import closeness
from pprjax.stacked import stack
from pprjax.task import Task
from pprjax_envs.text.agents import Author
from pprjax_envs.text.corpus import split, words_and_marks
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.judges import SentenceJudge
from pprjax_envs.text.settings import MAX_WORDS, SETTINGS
from pprjax_envs.text.world import log_probs, paths, task, texts


@dataclasses.dataclass(frozen=True)
class Judges:
    """Whose sentiment is wanted, and another judge, of whom nothing was asked."""

    asked: SentenceJudge
    other: SentenceJudge


def ladders(
    authors: Sequence[Author | LanguageModel],
    sentences: Sequence[tuple[str, str | None]],
    judges: Judges,
    config: Config = SETTINGS,
    *,
    constraints: Constraints | None = None,
    max_words: int = MAX_WORDS,
) -> tuple[pl.DataFrame, list[str]]:
    """Every sentence rewritten as every author would, with as many edits as buy something.

    Direction, edits and opinions are those of the sentence as the author's alphabet writes it.

    Args:
        sentences: each with the wanted sentiment; None: the opposite of what the asked judge finds.
        constraints: what every rewriting keeps to.

    Returns:
        One row for each sentence, author and point of the frontier: the sentence's number, as it was `typed`, and as
        it is written; `marks` of it that are no words; the rewriting; `edits` (a character for each, see
        `pprjax.logs.edits`); its value and scores; whether it is `chosen`, the best at the config's λ_path; whether no
        sentence with fewer edits than the first point meets the goal (`fewest`); both judges' scores before and after,
        and whether they find the wanted sentiment; and log P of sentence and rewriting under each author. Then why
        sentences were left out.
    """
    asked: list[list[_Aim]] = [[] for _ in authors]
    rejected, frames = [], []
    for number, (typed, wanted) in enumerate(sentences):
        try:
            aims = [_aim(author, (number, typed), wanted, judges, max_words) for author in authors]
        except ValueError as error:
            if len(sentences) == 1:
                raise
            rejected.append(f"{typed!r}: {error}")
            continue
        for own, aim in zip(asked, aims, strict=True):
            own.append(aim)
    for place, (author, aims) in enumerate(zip(authors, asked, strict=True)):
        if aims:
            found = _searched(author, aims, config, constraints)
            if len(found):
                rungs = _rungs(found, aims, config.lambda_path)
                frames.append(rungs.with_columns(author=pl.lit(author.name), place=place))
            for i in np.setdiff1d(np.arange(len(aims)), found.index):
                said = f"found no {aims[i].towards} rewriting of at most {max_words} words"
                rejected.append(f"{aims[i].typed!r}: {said}")
    if not frames:
        return pl.DataFrame(), rejected
    table = pl.concat(frames).sort("number", "place", "distance").drop("place")
    return table.hstack(_opinions(judges, authors, table)), rejected


@dataclasses.dataclass(frozen=True)
class _Aim:
    """What is asked of one sentence and author."""

    number: int  # of the sentence
    typed: str
    task: Task
    original: Paths
    towards: str
    marks: list[str]  # of it that are no words to the author


def _aim(
    author: Author | LanguageModel, sentence: tuple[int, str], wanted: str | None, judges: Judges, max_words: int
) -> _Aim:
    number, typed = sentence
    towards: Any = wanted or "positive"
    aim = task(author, typed, judge=judges.asked, towards=towards, max_words=max_words)
    original = paths(aim, [typed])
    if wanted is None:
        towards = opposite(judges.asked, texts(aim, original)[0])
        aim = task(author, typed, judge=judges.asked, towards=towards, max_words=max_words)
    return _Aim(number, typed, aim, original, towards, _marks(author, typed))


def _searched(
    author: Author | LanguageModel, aims: Sequence[_Aim], config: Config, constraints: Constraints | None
) -> Frontier:
    """The frontiers of some sentences, side by side, by a beam alone: what a proof would take grows with the
    vocabulary."""
    rows, actions = zip(
        *((aim.original.to_lists()[0], aim.original.actions_to_lists()[0]) for aim in aims), strict=True
    )
    originals, length = Paths.from_lists(rows, actions), aims[0].task.env.length
    try:
        options: dict[str, Any] = dict(method="search", calls=0, max_edits=length)
        tasks = stack([aim.task.replace(constraints=constraints) for aim in aims])
        return frontier(tasks, originals, config, **options)
    finally:  # in place of what came of it
        for aim in aims:
            aim.task.env.check()
        if isinstance(author, LanguageModel):
            author.check()


def _rungs(found: Frontier, aims: Sequence[_Aim], lambda_path: Any) -> pl.DataFrame:
    """The points of the frontiers of these sentences."""
    scores, own = found.scores, [aims[i] for i in found.index]
    sentences = [texts(aim.task, aim.original)[0] for aim in aims]
    written = [texts(aim.task, found.paths[[k]])[0] for k, aim in enumerate(own)]
    first = found.distance[np.searchsorted(found.index, found.index)]  # of each point's ladder
    fewest = (first == 0) | np.isneginf(found.limit[found.index, np.maximum(first, 1) - 1])
    return pl.DataFrame(
        {
            "sentence": [sentences[i] for i in found.index],
            "recourse": written,
            "edits": [_edits(sentences[i], [after])[0] for i, after in zip(found.index, written, strict=True)],
            "distance": found.distance,
            "chosen": found.distance == found.at(lambda_path).scores.distance[found.index],
            "fewest": fewest,
            "value": found.value,
            "bound": found.bound,
            "status": found.status.tolist(),
            "s_goal": scores.goal,
            "s_path": scores.path,
            "r_policy": scores.r_policy,
            "s_policy": scores.policy,
            "number": [aim.number for aim in own],
            "typed": [aim.typed for aim in own],
            "towards": [aim.towards for aim in own],
            "marks": pl.Series([aim.marks for aim in own], dtype=pl.List(pl.String)),
        }
    )


def _marks(author: Author | LanguageModel, typed: str) -> list[str]:
    """The marks of a sentence that are no words to an author; a model of Hugging Face has tokens for all."""
    return list(dict.fromkeys(words_and_marks(typed)[1])) if isinstance(author, Author) else []


def _opinions(judges: Judges, authors: Sequence[Author | LanguageModel], table: pl.DataFrame) -> pl.DataFrame:
    """What judges and authors say of sentences and their rewritings, all in one batch."""
    columns: dict[str, np.ndarray] = {}
    read = {"before": table["sentence"].to_list(), "after": table["recourse"].to_list()}
    towards = table["towards"].to_list()
    for name, judge in (("judge", judges.asked), ("other", judges.other)):
        columns |= {f"{name}_{when}": judge(written) for when, written in read.items()}
        reached = [bool(judge.reached(x, aim)) for x, aim in zip(columns[f"{name}_after"], towards, strict=True)]
        columns["flipped" if name == "judge" else "other_flipped"] = np.array(reached)
    for author in authors:
        before, after = np.split(log_probs(author, read["before"] + read["after"]), 2)
        columns |= {f"log_prob_before_{author.name}": before, f"log_prob_{author.name}": after}
    return pl.DataFrame(columns)


def opposite(judge: SentenceJudge, sentence: str) -> Literal["positive", "negative"]:
    """The sentiment that a sentence lacks; positive for a neutral one."""
    return "negative" if judge.reached(judge([sentence])[0], "positive") else "positive"


def at(table: pl.DataFrame, lambdas: Sequence[float]) -> pl.DataFrame:
    """The best rewriting of each sentence and author at each λ_path, with its R; of equals the one of fewer edits."""
    whose, parts = ["number", "author"], []
    for place, lambda_path in enumerate(lambdas):
        reward = pl.col("value") + closeness(pl.col("distance"), lambda_path)
        scored = table.with_row_index("row").with_columns(
            first=pl.col("row").min().over(whose), place=place, lambda_path=pl.lit(float(lambda_path)), reward=reward
        )
        best = scored.filter(pl.col("reward") == pl.col("reward").max().over(whose))
        parts.append(best.unique(whose, keep="first", maintain_order=True))
    return pl.concat(parts).sort("first", "place").drop("row", "first", "place")


def summarize(table: pl.DataFrame, *by: str) -> pl.DataFrame:
    """The means over the sentences, of each author and of each value of further columns.

    `own` says how often a rewriting is likelier under its own author than under every other one.
    """
    names = table["author"].unique(maintain_order=True).to_list()
    columns = {name: pl.col(f"log_prob_{name}") for name in names}
    own = pl.coalesce(pl.when(author=name).then(column) for name, column in columns.items())
    means = ("flipped", "other_flipped", "s_goal", "s_path", "s_policy", "r_policy", "distance", "own")
    return (
        table.with_columns(own=own >= pl.max_horizontal(*columns.values()))
        .group_by("author", *by, maintain_order=True)
        .agg(pl.col(*means).mean(), sentences=pl.len())
    )


def words_in(text: str) -> list[str]:
    """All words of a text, of one sentence or several."""
    return [word for words in split(text) for word in words]


def _edits(sentence: str, written: Sequence[str]) -> list[str]:
    """How the words of each rewriting differ from the sentence's; see `pprjax.logs.edits`."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(w, len(numbers)) for w in words_in(text)] for text in (sentence, *written)]
    return alignments(Paths.from_lists(rows[:1] * len(written)), Paths.from_lists(rows[1:]))
