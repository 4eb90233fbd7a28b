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

if TYPE_CHECKING:
    import polars as pl

    from pprjax_envs.text.corpus import Corpus
    from pprjax_envs.text.huggingface import LanguageModel
    from pprjax_envs.text.judges import Judge
    from pprjax_envs.text.transformer import Author

PAPER = {
    "positive": ("She was sad", "The cup was empty", "The book on the table is boring"),
    "negative": ("I am in love", "The world is beautiful", "The magicians enjoy the magic"),
}
"""The paper's own sentences, and where they are to go."""

MAX_WORDS = 10
"""Words of a rewriting at most."""

NUM_OFFERED = 64
"""m: of the author's likeliest next words, how many are offered at each step."""

LAMBDAS = (10.0, 0.1)
"""λ_path: keep most of the sentence, or little."""

SETTINGS = Config(
    habit="link",
    lambda_policy=0.1,
    c_e=0.0,
    epsilon_end=0.2,
    iterations=80,
    num_paths=64,
    num_best=8,
    updates=4,
    batch_size=128,
    width=32,
    edited_lanes=True,
)
"""A quarter of the paths sample from P_A as it is, so that the others may explore evenly: what flips a sentence is
often a word that its author finds unlikely there. λ_policy weighs the author's voice against the sentence: with 0.1 the
optimum at λ_path = 10 changes one word, whoever writes; with 0.5 much of what its author would not say is written anew.
"""


def main(
    sentence: tyro.conf.Positional[str | None] = None,
    /,
    *,
    input: Annotated[Path | None, tyro.conf.arg(aliases=["--from-file"])] = None,
    out: Path = Path("out/text"),
    corpus: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[=FILE]")] = ("psalms", "kings"),
    model: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FOLDER")] = (),
    judge: str = "vader",
    towards: Literal["positive", "negative"] | None = None,
    lambdas: tuple[float, ...] = LAMBDAS,
    max_words: int = MAX_WORDS,
    num_offered: int = NUM_OFFERED,
    seed: int = 0,
    cache: Path | None = None,
    config: tyro.conf.OmitArgPrefixes[Config] = SETTINGS,
) -> None:
    """Rewrite sentences so that they sound positive, or negative, as each of two authors would.

    Without a sentence it takes the six of the paper. Prints every rewriting with its edits marked, of a file only how
    they are on average; writes recourse.parquet, recourse.jsonl and summary.json.

    Args:
        sentence: the sentence to rewrite.
        input: a file of sentences, one a line, in place of one; prints how many a second.
        out: the folder to write to; made if it is missing.
        corpus: the authors: psalms, kings or asv (of the American Standard Version), or NAME=file.txt.
        model: more authors: causal language models of Hugging Face, in a folder each.
        judge: whose sentiment is wanted: vader, textblob, or the folder of a Hugging Face classifier. Another one, that
            the rewritings were not made for, stands beside it.
        towards: the wanted sentiment; default: the opposite of the sentence's own, positive for one that has none.
        lambdas: λ_path, each of which gives a rewriting; in place of config's.
        max_words: words of a rewriting at most.
        num_offered: of the author's likeliest next words, how many are tried at each step.
        seed: of the models and the training.
        cache: the folder where trained models are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
        config: every other knob of Algorithm 1.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, replacing, write_json, write_table

    _check(lambdas, max_words, num_offered, config)  # before minutes of training
    folder = output_folder(out)
    wanted = _sentences(sentence, input, towards)
    if sentence is not None and len(_words(sentence)) > max_words:
        raise ValueError(f"sentence: expected 1 to {max_words} words, got {len(_words(sentence))} in {sentence!r}")

    from rich.console import Console

    from pprjax.timing import compile_seconds
    from pprjax_envs.text import corpus as text_corpus

    console = Console()
    own, other = _judges(judge)
    corpora, models = [text_corpus.named(spec) for spec in corpus], [_model(spec) for spec in model]
    names = [author.name for author in (*corpora, *models)]
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"corpus: expected authors of different names, got {', '.join(names) or 'none'}")
    authors = [_author(own_words, seed, cache, console) for own_words in corpora] + models
    trained = time.perf_counter()
    with compile_seconds() as compiling:
        table, rejected = experiment(
            authors, wanted, config, lambdas, judge=own, other=other,
            max_words=max_words, num_offered=num_offered, seed=seed,
        )  # fmt: skip
    seconds = time.perf_counter() - trained
    write_table(table, folder / "recourse.parquet")
    with replacing(folder / "recourse.jsonl") as aside:
        table.write_ndjson(aside)
    done = len(wanted) - len(rejected)
    write_json(
        {
            "authors": [author.name for author in authors],
            "lambdas": list(lambdas),
            "judges": [own.name, other.name],
            "rejected": rejected,
            "summary": summarize(table).to_dicts() if done else [],
            "seconds": {"models": trained - started, "recourse": seconds, "compile": compiling.seconds},
            "sentences_per_second": done / seconds,
            "seed": seed,
            "config": dataclasses.asdict(config),
        },
        folder / "summary.json",
    )
    if input is None:
        for direction in table["towards"].unique(maintain_order=True):
            console.print(_as_rich(table.filter(towards=direction), [a.name for a in authors], own, other))
        console.print(
            "Each sentence first as it is, then rewritten: as it reads, and with its edits, -deleted and +inserted. "
            "d counts edited words, of which a comma is one; R is Eq. 5. The judges say 0 where all is negative, 0.5 "
            f"where all is neutral and 1 where all is positive; {own.name} was asked, {other.name} was not, and ! is "
            "where one does not find the wanted sentiment. log P says how likely each author is to write the whole "
            "sentence."
        )
    elif done:
        console.print(_summary_table(summarize(table), own, other))
        console.print(
            f"{own.name} and {other.name}: where they find the wanted sentiment; only {own.name} was asked. d: edited "
            "words. s_policy: log P of a word under the author. own voice: likelier under its author than under every "
            "other."
        )
    for reason in rejected:
        console.print(f"left out: {reason}", soft_wrap=True, markup=False)
    console.print(
        f"{done} sentence{'s' * (done != 1)}, {seconds:.0f} s, of which {compiling.seconds:.0f} s compiling: "
        f"{done / seconds:.2f} sentences/s, each for {len(authors)} authors and {len(lambdas)} λ_path. "
        f"Written to {folder}: recourse.parquet, recourse.jsonl, summary.json.",
        soft_wrap=True,
    )


def experiment(
    authors: Sequence[Author | LanguageModel],
    sentences: Sequence[tuple[str, str | None]],
    config: Config = SETTINGS,
    lambdas: Sequence[float] = LAMBDAS,
    *,
    judge: Judge,
    other: Judge,
    max_words: int = MAX_WORDS,
    num_offered: int = NUM_OFFERED,
    seed: int = 0,
) -> tuple[pl.DataFrame, list[str]]:
    """Every sentence rewritten as every author would: at every λ_path, the best there of what is found at any of them.

    Args:
        sentences: each with the wanted sentiment; None: the opposite of what `judge` finds.
        judge: whose sentiment is wanted.
        other: a judge that nothing was made for.

    Returns:
        One row for each sentence, author and λ_path: the rewriting; `edits` (one character for each, as in
        `pprjax.logs.edits`); its reward and scores; both judges before and after, and whether they find the wanted
        sentiment; and log P of sentence and rewriting under each author. And why sentences were left out.
    """
    import zlib

    import jax
    import numpy as np
    import polars as pl

    from pprjax import recourse
    from pprjax.metrics import best_at
    from pprjax.progress import progress_bar
    from pprjax_envs import text

    settings = dataclasses.replace(config, lambda_path=np.asarray(lambdas, np.float32))
    frames, rejected = [], []
    with progress_bar("rewriting", len(sentences) * len(authors) * len(lambdas)) as advance:
        for sentence, wanted in sentences:
            try:
                towards: Any = wanted or opposite(judge, sentence)
                tasks = [
                    text.task(a, sentence, judge=judge, towards=towards, max_words=max_words, num_best=num_offered)
                    for a in authors
                ]
            except ValueError as error:
                if len(sentences) == 1:
                    raise
                rejected.append(f"{sentence!r}: {error}")
                advance(float(len(authors) * len(lambdas)))
                continue
            number = zlib.crc32(sentence.encode())
            for author, task in zip(authors, tasks, strict=True):
                originals = task.env.original[[0] * len(lambdas)]
                ids = np.full(len(lambdas), number, np.uint32)
                found = recourse(
                    task, originals, settings, method="learn", key=jax.random.key(seed), ids=ids, progress=False
                )
                task.env.check()
                met = np.isin(found.status, ("reached_goal", "unchanged"))
                best, rewards = best_at(
                    found.scores, met, lambda_path=settings.lambda_path, lambda_policy=settings.lambda_policy
                )
                scores = jax.tree.map(lambda x, best=best: np.asarray(x)[best], found.scores)
                written = task.env.texts(found.paths[best])
                before = np.array([j([sentence])[0] for j in (judge, other)])
                after = np.array([j(written) for j in (judge, other)])
                likely = {a.name: text.log_probs(a, [sentence, *written]) for a in authors}
                frames.append(
                    pl.DataFrame(
                        {
                            "sentence": sentence,
                            "towards": towards,
                            "author": author.name,
                            "lambda_path": list(lambdas),
                            "recourse": written,
                            "edits": _edits(sentence, written),
                            "status": found.status[best].tolist(),
                            "reward": rewards,
                            "s_goal": scores.goal,
                            "s_path": scores.path,
                            "s_policy": scores.policy,
                            "distance": scores.distance,
                            "judge_before": before[0],
                            "judge_after": after[0],
                            "flipped": judge.reached(after[0], towards),
                            "other_before": before[1],
                            "other_after": after[1],
                            "other_flipped": other.reached(after[1], towards),
                            **{f"log_prob_before_{name}": float(x[0]) for name, x in likely.items()},
                            **{f"log_prob_{name}": x[1:] for name, x in likely.items()},
                        }
                    )
                )
                advance(float(len(lambdas)))
    return pl.concat(frames) if frames else pl.DataFrame(), rejected


def opposite(judge: Judge, sentence: str) -> Literal["positive", "negative"]:
    """The sentiment that a sentence has not; positive for one that has none."""
    return "negative" if judge.reached(judge([sentence])[0], "positive") else "positive"


def summarize(table: pl.DataFrame) -> pl.DataFrame:
    """The means over the sentences, of each author at each λ_path; `own` is how often a rewriting is likelier under its
    own author than under every other."""
    import polars as pl

    names = table["author"].unique(maintain_order=True).to_list()
    columns = {name: pl.col(f"log_prob_{name}") for name in names}
    own = pl.coalesce(pl.when(author=name).then(column) for name, column in columns.items())
    best = pl.max_horizontal(*columns.values())
    return (
        table.with_columns(own=own >= best)
        .group_by("author", "lambda_path", maintain_order=True)
        .agg(
            pl.col("flipped", "other_flipped", "reward", "s_goal", "s_path", "s_policy", "distance", "own").mean(),
            sentences=pl.len(),
        )
    )


def _check(lambdas: Sequence[float], max_words: int, num_offered: int, config: Config) -> None:
    bad = [x for x in lambdas if not 0 <= x < math.inf]
    if bad or not lambdas:
        raise ValueError(f"lambdas: expected finite numbers of at least 0, got {bad[0] if bad else 'none'}")
    if config.lambda_path != SETTINGS.lambda_path:
        raise ValueError(f"lambda_path: expected it as one of lambdas (--lambdas {config.lambda_path:g}), got both")
    for name, value in {"max_words": max_words, "num_offered": num_offered}.items():
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")
    check_config(config, 1)


def _sentences(sentence: str | None, path: Path | None, towards: str | None) -> list[tuple[str, Any]]:
    from pprjax_envs.text.corpus import words_of

    if sentence is not None and path is not None:
        raise ValueError("input: expected a sentence or a file, got both")
    if sentence is not None:
        words_of(sentence)
        return [(sentence, towards)]
    if path is None:
        return [(s, direction) for direction, group in PAPER.items() for s in group if towards in (None, direction)]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"input: {path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise ValueError(f"input: can't read {path} ({error.strerror})") from None
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"input: {path} has no sentence")
    return [(line, towards) for line in lines]


def _author(corpus: Corpus, seed: int, cache: Path | None, console: Any) -> Author:
    from pprjax.progress import progress_bar
    from pprjax_envs.text import transformer as text_transformer

    training = text_transformer.Training()
    done = 0.0
    with progress_bar(f"the model of {corpus.name}", training.steps) as advance:

        def watch(step: int, perplexity: float) -> None:
            nonlocal done
            advance(step - done)
            done = float(step)

        author, reloaded = text_transformer.trained(corpus, training, seed=seed, folder=cache, watch=watch)
    console.print(
        f"{author.name}: {len(corpus.sentences):,} sentences, {corpus.num_words:,} words; "
        f"{'read back' if reloaded else 'trained'}, perplexity {float(author.perplexity):.0f} on held-out sentences.",
        soft_wrap=True,
    )
    return author


def _model(spec: str) -> LanguageModel:
    from pprjax_envs.text.huggingface import LanguageModel

    name, sign, folder = spec.partition("=")
    if not (sign and name and folder):
        raise ValueError(f"model: expected NAME=FOLDER, got {spec!r}")
    model = LanguageModel(folder)
    model.name = name
    return model


def _judges(name: str) -> tuple[Judge, Judge]:
    """The one that is asked, and another."""
    from pprjax_envs.text.judges import VADER, HuggingFaceJudge, TextBlob

    if name == "textblob":
        return TextBlob(), VADER()
    if name != "vader" and not Path(name).is_dir():
        raise ValueError(f"judge: expected vader, textblob or the folder of a classifier, got {name!r}")
    return (VADER() if name == "vader" else HuggingFaceJudge(name)), TextBlob()


def _edits(sentence: str, written: Sequence[str]) -> list[str]:
    """How the words of each rewriting differ from the sentence's, see `pprjax.logs.edits`."""
    from pprjax.logs.edits import alignments
    from pprjax.paths import Paths

    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(w, len(numbers)) for w in _words(text)] for text in (sentence, *written)]
    return alignments(Paths.from_lists(rows[:1] * len(written)), Paths.from_lists(rows[1:]))


def _words(text: str) -> list[str]:
    from pprjax_envs.text.corpus import split

    return [word for words in split(text) for word in words]


def marked(sentence: Sequence[str], rewritten: Sequence[str], edits: str) -> str:
    """A rewriting with its edits, in rich's markup: [-deleted-], [+inserted+], and both where a word is replaced."""
    from rich.markup import escape

    old, new, parts = iter(sentence), iter(rewritten), []
    for edit in edits:
        gone = f"[strike red]-{escape(next(old))}[/]" if edit in "~-" else ""
        come = f"[bold green]+{escape(next(new))}[/]" if edit in "~+" else ""
        if edit == "=":
            next(old)
            come = escape(next(new))
        parts.append(" ".join(filter(None, (gone, come))))
    return " ".join(parts)


def _as_rich(table: pl.DataFrame, authors: list[str], judge: Judge, other: Judge) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = f"Towards {table['towards'][0]}"
    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("author", "λ_path", "recourse", "d", "R", judge.name, other.name, *(f"log P\n{a}" for a in authors)):
        words = name == "recourse"
        shown.add_column(name, justify="left" if words or name == "author" else "right", no_wrap=not words)
    for (sentence,), rows in table.group_by("sentence", maintain_order=True):
        shown.add_section()
        first = rows.row(0, named=True)
        likely = [f"{first[f'log_prob_before_{a}']:.1f}" for a in authors]
        shown.add_row("", "", f"[italic]{escape(sentence)}[/]", "", "", f"{first['judge_before']:.2f}",
                      f"{first['other_before']:.2f}", *likely)  # fmt: skip
        for row in rows.iter_rows(named=True):
            shown.add_row(
                row["author"],
                f"{row['lambda_path']:g}",
                escape(row["recourse"]) + "\n" + marked(_words(row["sentence"]), _words(row["recourse"]), row["edits"]),
                str(row["distance"]),
                f"{row['reward']:.2f}",
                f"{row['judge_after']:.2f}" + " !" * (not row["flipped"]),
                f"{row['other_after']:.2f}" + " !" * (not row["other_flipped"]),
                *(f"{row[f'log_prob_{a}']:.1f}" for a in authors),
            )
    return shown


def _summary_table(summary: pl.DataFrame, judge: Judge, other: Judge) -> Any:
    from rich.table import Table

    names = {
        "flipped": judge.name, "other_flipped": other.name, "distance": "d", "s_policy": "s_policy", "own": "own voice",
    }  # fmt: skip
    shown = Table(title="Means over the sentences")
    for name in ("author", "λ_path", *names.values()):
        shown.add_column(name, justify="left" if name == "author" else "right")
    for row in summary.iter_rows(named=True):
        figures = [f"{row[n]:.0%}" if n in ("flipped", "other_flipped", "own") else f"{row[n]:.2f}" for n in names]
        shown.add_row(row["author"], f"{row['lambda_path']:g}", *figures)
    return shown
