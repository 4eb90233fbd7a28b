"""Sentences that get another sentiment and keep an author's voice: every sentence, author and λ_path."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
import polars as pl

from pprjax import recourse
from pprjax.config import Config
from pprjax.logs.edits import alignments
from pprjax.metrics import best_at
from pprjax.paths import Paths
from pprjax.progress import progress_bar
from pprjax.task import Task
from pprjax_envs.text.agents import Author
from pprjax_envs.text.corpus import split
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.judges import Judge
from pprjax_envs.text.settings import LAMBDAS, MAX_WORDS, NUM_OFFERED, SETTINGS
from pprjax_envs.text.world import log_probs, task


@dataclasses.dataclass(frozen=True)
class Judges:
    """Whose sentiment is wanted, and another judge, of whom nothing was asked."""

    asked: Judge
    other: Judge


def rewrite(
    authors: Sequence[Author | LanguageModel],
    sentences: Sequence[tuple[str, str | None]],
    judges: Judges,
    config: Config = SETTINGS,
    lambdas: Sequence[float] = LAMBDAS,
    *,
    max_words: int = MAX_WORDS,
    num_offered: int = NUM_OFFERED,
    seed: int = 0,
) -> tuple[pl.DataFrame, list[str]]:
    """Every sentence rewritten as every author would, at every λ_path.

    Each λ_path is searched by itself. What counts at a λ_path is the best there of all that was found.

    Args:
        sentences: each with the wanted sentiment; None: the opposite of what the asked judge finds.

    Returns:
        One row for each sentence, author and λ_path: the rewriting; `edits` (a character for each, see
        `pprjax.logs.edits`); its reward and scores; `reward_alone` and `distance_alone`, of what the search at this
        λ_path found by itself; both judges' scores before and after, and whether they find the wanted sentiment; and
        log P of sentence and rewriting under each author. Then why sentences were left out.
    """
    frames, rejected = [], []
    with progress_bar("rewriting", len(sentences) * len(authors) * len(lambdas)) as advance:
        for sentence, wanted in sentences:
            try:
                towards: Any = wanted or opposite(judges.asked, sentence)
                options: dict[str, Any] = dict(judge=judges.asked, towards=towards, max_words=max_words)
                tasks = [task(author, sentence, num_best=num_offered, **options) for author in authors]
            except ValueError as error:
                if len(sentences) == 1:
                    raise
                rejected.append(f"{sentence!r}: {error}")
                advance(float(len(authors) * len(lambdas)))
                continue
            for author, aim in zip(authors, tasks, strict=True):
                found = _rewritings(aim, sentence, config, lambdas, seed)
                others = _opinions(judges, authors, sentence, found["recourse"].to_list(), towards)
                told = {"sentence": sentence, "towards": towards, "author": author.name}
                named = pl.DataFrame({name: [value] * len(lambdas) for name, value in told.items()})
                frames.append(pl.concat([named, found, others], how="horizontal"))
                advance(float(len(lambdas)))
    return pl.concat(frames) if frames else pl.DataFrame(), rejected


def _rewritings(task: Task, sentence: str, config: Config, lambdas: Sequence[float], seed: int) -> pl.DataFrame:
    """The best rewriting at each λ_path, with its scores, and what each search found alone."""
    num = len(lambdas)
    settings = dataclasses.replace(config, lambda_path=np.asarray(lambdas, np.float32))
    ids = np.full(num, zlib.crc32(sentence.encode()), np.uint32)
    key = jax.random.key(seed)
    originals = task.env.original[[0] * num]
    found = recourse(task, originals, settings, method="learn", key=key, ids=ids, progress=False)
    task.env.check()
    met = np.isin(found.status, ("reached_goal", "unchanged"))
    best, rewards = best_at(found.scores, met, lambda_path=settings.lambda_path, lambda_policy=settings.lambda_policy)
    scores = jax.tree.map(lambda x: np.asarray(x)[best], found.scores)
    written = task.env.texts(found.paths[best])
    return pl.DataFrame(
        {
            "lambda_path": list(lambdas),
            "recourse": written,
            "edits": _edits(sentence, written),
            "status": found.status[best].tolist(),
            "reward": rewards,
            "s_goal": scores.goal,
            "s_path": scores.path,
            "s_policy": scores.policy,
            "distance": scores.distance,
            "reward_alone": found.reward,
            "distance_alone": found.scores.distance,
        }
    )


def _opinions(
    judges: Judges, authors: Sequence[Author | LanguageModel], sentence: str, written: list[str], towards: str
) -> pl.DataFrame:
    """What judges and authors say of a sentence and its rewritings."""
    (before, after), (other_before, other_after) = (
        (judge([sentence])[0], judge(written)) for judge in (judges.asked, judges.other)
    )
    likely = {author.name: log_probs(author, [sentence, *written]) for author in authors}
    return pl.DataFrame(
        {
            "judge_before": np.full(len(written), before),
            "judge_after": after,
            "flipped": judges.asked.reached(after, towards),
            "other_before": np.full(len(written), other_before),
            "other_after": other_after,
            "other_flipped": judges.other.reached(other_after, towards),
            **{f"log_prob_before_{name}": np.full(len(written), x[0]) for name, x in likely.items()},
            **{f"log_prob_{name}": x[1:] for name, x in likely.items()},
        }
    )


def opposite(judge: Judge, sentence: str) -> Literal["positive", "negative"]:
    """The sentiment that a sentence lacks; positive for a neutral one."""
    return "negative" if judge.reached(judge([sentence])[0], "positive") else "positive"


def summarize(table: pl.DataFrame) -> pl.DataFrame:
    """The means over the sentences, of each author at each λ_path.

    `own` says how often a rewriting is likelier under its own author than under every other one.
    """
    names = table["author"].unique(maintain_order=True).to_list()
    columns = {name: pl.col(f"log_prob_{name}") for name in names}
    own = pl.coalesce(pl.when(author=name).then(column) for name, column in columns.items())
    means = ("flipped", "other_flipped", "reward", "s_goal", "s_path", "s_policy", "distance", "distance_alone", "own")
    return (
        table.with_columns(own=own >= pl.max_horizontal(*columns.values()))
        .group_by("author", "lambda_path", maintain_order=True)
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
