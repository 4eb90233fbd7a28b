"""A sentence that changes its sentiment and keeps its author's voice."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from pprjax.config import Config, check_config
from pprjax.constraints import Constraints
from pprjax.errors import UserError
from pprjax.reward import Habit
from pprjax_envs.text.settings import MAX_WORDS, PAPER, SETTINGS

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from pprjax_envs.text.agents import Author
    from pprjax_envs.text.corpus import Corpus
    from pprjax_envs.text.experiment import Judges
    from pprjax_envs.text.huggingface import LanguageModel


def main(
    sentence: tyro.conf.Positional[str | None] = None,
    /,
    *,
    input: Annotated[Path | None, tyro.conf.arg(aliases=["--from-file"])] = None,
    out: Path = Path("out/text"),
    corpus: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[=FILE]")] = ("psalms", "kings"),
    model: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDER|FILE.gguf")] = (),
    model_start: str | None = None,
    judge: str = "vader",
    towards: Literal["positive", "negative"] | None = None,
    lambdas: tuple[float, ...] = (),
    lambda_path: float = SETTINGS.lambda_path,
    lambda_policy: float = SETTINGS.lambda_policy,
    habit: Habit = SETTINGS.habit,
    max_regret: float | None = None,
    max_words: int = MAX_WORDS,
    seed: int = 0,
    cache: Path | None = None,
) -> None:
    """Rewrite sentences so that they sound positive, or negative, as each of two authors would.

    Without a sentence it takes the six of the paper. Prints a ladder for each sentence and author: with each further
    edit that buys something, the best rewriting, its edits marked; for a file, only means over the points that `chosen`
    marks. Writes recourse.parquet, recourse.jsonl and summary.json.

    Args:
        sentence: the sentence to rewrite.
        input: a file with a sentence on each line, instead of one sentence; prints how many are rewritten a second.
        out: the folder to write to; made if it is missing.
        corpus: the authors: psalms, kings or asv (of the American Standard Version), or NAME=file.txt.
        model: more authors: causal language models of Hugging Face, NAME=FOLDER or NAME=FILE.gguf.
        model_start: the token that a text of theirs begins with; default the tokenizer's own, which in a model made
            for chats may ask for no sentence.
        judge: whose sentiment is wanted: vader, textblob, or the folder of a Hugging Face classifier. The table also
            shows a judge that was not asked.
        towards: the wanted sentiment; default: the opposite of the sentence's own, and positive for a neutral one.
        lambdas: show the best rewriting at each of these λ_path, and not the ladder.
        lambda_path: the λ_path at which a point of the ladder is marked: the weight of closeness.
        lambda_policy: the weight of the author's habits, beside the judge's score.
        habit: "regret", how much less likely a word is than the author's favourite; or "link", Eq. 4 of the paper.
        max_regret: the most that any single word may cost, in nats: none is less likely than e^-max_regret times the
            author's favourite in its place. Default: no limit.
        max_words: the largest number of words of a rewriting.
        seed: for the training.
        cache: the folder where trained models are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder

    config = Config(lambda_path=lambda_path, lambda_policy=lambda_policy, habit=habit)
    _check(lambdas, max_words)  # before minutes of training
    check_config(config, 1)
    constraints = None if max_regret is None else Constraints(max_regret=max_regret)
    folder = output_folder(out)
    wanted = _sentences(sentence, input, towards)
    if sentence is not None:
        _check_length(sentence, max_words)

    from rich.console import Console

    from pprjax.timing import compile_seconds
    from pprjax_envs.text.experiment import at, ladders, summarize

    console = Console()
    judges = _judges(judge)
    models = [_model(spec, model_start) for spec in model]
    authors = _authors(corpus, models, seed, cache, console)
    trained = time.perf_counter()
    with compile_seconds() as compiling:
        table, rejected = ladders(authors, wanted, judges, config, constraints=constraints, max_words=max_words)
    seconds = time.perf_counter() - trained
    table = at(table, lambdas) if lambdas and len(table) else table
    done = table["number"].n_unique() if len(table) else 0
    shown = table if lambdas or not done else table.filter("chosen")
    summary = summarize(shown, *(["lambda_path"] if lambdas else [])) if done else None
    told = {
        "authors": [author.name for author in authors],
        "lambdas": list(lambdas),
        "judges": [judges.asked.name, judges.other.name],
        "rejected": rejected,
        "summary": [] if summary is None else summary.to_dicts(),
        "seconds": {"models": trained - started, "recourse": seconds, "compile": compiling.seconds},
        "sentences_per_second": done / seconds,
        "seed": seed,
        "max_regret": max_regret,
        "config": dataclasses.asdict(config),
    }
    _write(folder, table, told)
    if input is None:
        _print_rewritings(console, table, [author.name for author in authors], judges)
    elif summary is not None:
        _print_means(console, summary, judges)
    _print_rejected(console, rejected)
    _print_done(console, done, len(authors), seconds, compiling.seconds)
    console.print(f"Written to {folder}: recourse.parquet, recourse.jsonl, summary.json.", soft_wrap=True)


def _write(folder: Path, table: pl.DataFrame, told: dict[str, Any]) -> None:
    """recourse.parquet, recourse.jsonl and summary.json."""
    from pprjax.io import replacing, write_json, write_table

    write_table(table, folder / "recourse.parquet")
    with replacing(folder / "recourse.jsonl") as aside:
        table.write_ndjson(aside)
    write_json(told, folder / "summary.json")


def _print_done(console: Console, sentences: int, authors: int, seconds: float, compiling: float) -> None:
    console.print(
        f"{sentences} sentence{'s' * (sentences != 1)}, {seconds:.0f} s, of which {compiling:.0f} s compiling: "
        f"{sentences / seconds:.2f} sentences/s, each for {authors} author{'s' * (authors != 1)}.",
        soft_wrap=True,
    )


def _print_rejected(console: Console, rejected: list[str]) -> None:
    for reason in rejected:
        console.print(f"left out: {reason}", soft_wrap=True, markup=False)


def _print_rewritings(console: Console, table: pl.DataFrame, authors: list[str], judges: Judges) -> None:
    from pprjax_envs.text import tables

    for direction in table["towards"].unique(maintain_order=True):
        console.print(tables.rewritings(table.filter(towards=direction), authors, judges))
    for note in tables.notes(table):
        console.print(note, soft_wrap=True, markup=False)
    console.print(
        "Each sentence first as it is, then rewritten: as it reads, and with its edits, -deleted and +inserted. "
        "d counts edited words; a comma is one. A further edit stands there only where it buys something: conviction "
        "of the judge, or the author's habits. → is the best at --lambda-path. "
        "The judges say 0 where all is negative, 0.5 where all is "
        f"neutral and 1 where all is positive. {judges.asked.name} was asked, {judges.other.name} was not; ! is where "
        "a judge does not find the wanted sentiment. log P says how likely each author is to write a word of it."
    )


def _print_means(console: Console, summary: pl.DataFrame, judges: Judges) -> None:
    from pprjax_envs.text import tables

    console.print(tables.means(summary, judges))
    console.print(
        f"{judges.asked.name} and {judges.other.name}: where they find the wanted sentiment; only {judges.asked.name} "
        "was asked. d: edited words. s_policy: log P of a word under the author. own voice: likelier under its author "
        "than under every other."
    )


def _check(lambdas: Sequence[float], max_words: int) -> None:
    bad = [x for x in lambdas if not 0 <= x < math.inf]
    if bad:
        raise UserError(f"lambdas: expected finite numbers of at least 0, got {bad[0]}")
    if max_words < 1:
        raise UserError(f"max_words: expected at least 1, got {max_words}")


def _check_length(sentence: str, max_words: int) -> None:
    from pprjax_envs.text.corpus import words_of

    num = len(words_of(sentence))
    if num > max_words:
        raise UserError(f"sentence: expected 1 to {max_words} words, got {num} in {sentence!r}")


def _sentences(sentence: str | None, path: Path | None, towards: str | None) -> list[tuple[str, Any]]:
    from pprjax_envs.text.corpus import words_of

    if sentence is not None and path is not None:
        raise UserError("input: expected a sentence or a file, got both")
    if sentence is not None:
        words_of(sentence)
        return [(sentence, towards)]
    if path is None:
        return [(s, direction) for direction, group in PAPER.items() for s in group if towards in (None, direction)]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"input: {path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UserError(f"input: can't read {path} ({error.strerror})") from None
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise UserError(f"input: {path} has no sentence")
    return [(line, towards) for line in lines]


def _authors(
    corpus: Sequence[str], models: Sequence[LanguageModel], seed: int, cache: Path | None, console: Console
) -> list[Author | LanguageModel]:
    """The authors of the corpora, trained or read back, and those of Hugging Face."""
    from pprjax_envs.text.corpus import named

    corpora = [named(spec) for spec in corpus]
    names = [author.name for author in (*corpora, *models)]
    if len(set(names)) < len(names) or not names:
        raise UserError(f"corpus: expected authors of different names, got {', '.join(names) or 'none'}")
    return [*(_author(own_words, seed, cache, console) for own_words in corpora), *models]


def _author(corpus: Corpus, seed: int, cache: Path | None, console: Console) -> Author:
    from pprjax.progress import progress_bar
    from pprjax_envs.text import agents
    from pprjax_envs.text.training import Training

    training = Training()
    done = 0.0
    with progress_bar(f"the model of {corpus.name}", training.steps) as advance:

        def watch(step: int, perplexity: float) -> None:
            nonlocal done
            advance(step - done, "it ends sooner if it learns no more")
            done = float(step)

        author, reloaded = agents.trained(corpus, training, seed=seed, folder=cache, watch=watch)
    console.print(
        f"{author.name}: {len(corpus.sentences):,} sentences, {corpus.num_words:,} words; "
        f"{'read back' if reloaded else 'trained'}, perplexity {float(author.perplexity):.0f} on held-out sentences.",
        soft_wrap=True,
    )
    return author


def _model(spec: str, start: str | None) -> LanguageModel:
    from pprjax_envs.text.huggingface import LanguageModel

    name, sign, place = spec.partition("=")
    if not (sign and name and place):
        raise UserError(f"model: expected NAME=FOLDER or NAME=FILE.gguf, got {spec!r}")
    model = LanguageModel(place, start=start)
    model.name = name
    return model


def _judges(name: str) -> Judges:
    """The one that is asked, and another."""
    from pprjax_envs.text.experiment import Judges
    from pprjax_envs.text.judges import VADER, HuggingFaceJudge, TextBlob

    if name == "textblob":
        return Judges(asked=TextBlob(), other=VADER())
    if name != "vader" and not Path(name).is_dir():
        raise UserError(f"judge: expected vader, textblob or the folder of a classifier, got {name!r}")
    return Judges(asked=VADER() if name == "vader" else HuggingFaceJudge(name), other=TextBlob())
