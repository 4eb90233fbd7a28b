"""Does PPR rewrite sentences better than what one would try first, with the same language model and the same judge?

python bench/text.py --corpus asv fairytales=FILE [--sentences bench/sentences.json] [--compared 10] [--gguf FILE]

First every sentence is rewritten by both authors at both λ_path, at the command's λ_policy and at a heavier one, and
what comes of it is reported: how often each judge finds the wanted sentiment, how far the rewritings are, whether they
are likelier under their own author, and how likely an independent model (--gguf) finds them beside the originals. Then,
for the first few sentences of either sentiment and at the command's λ_policy, PPR's R stands beside two searches that
call the language model as often: the best of N samples, and a beam search.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import tyro
from pprjax_envs import text
from pprjax_envs.text.experiment import Judges, rewrite, summarize
from pprjax_envs.text.judges import VADER, TextBlob
from pprjax_envs.text.settings import LAMBDAS, MAX_WORDS, SETTINGS
from report import finish, table

from pprjax import edit_distance
from pprjax.learn import ranking
from pprjax.paths import PAD, Paths
from pprjax.reward import link, similarity, total
from pprjax.rollout import Behaviour, rollout, trace

TOLERANCE = 1e-4
"""Of R: below it two rewritings are equally good."""

HEAVIER = 0.5
"""λ_policy with which the author's voice outweighs a sentence that is far from it."""

JUDGED = (0.0, 1.0)
"""What a beam adds to a prefix's reward for how much of the wanted sentiment the judge finds in it. Both are run, each
with half of the calls, and the best sentence found counts."""


def main(
    corpus: tuple[str, str],
    sentences: Path = Path("bench/sentences.json"),
    compared: int = 10,
    gguf: Path | None = None,
) -> None:
    judges = Judges(asked=VADER(), other=TextBlob())
    by_direction = json.loads(sentences.read_text(encoding="utf-8"))
    wanted = [(s, "positive") for s in by_direction["negative"]] + [(s, "negative") for s in by_direction["positive"]]
    authors = [text.trained(text.corpus.named(spec))[0] for spec in corpus]
    rewrite(authors, wanted[:1], judges, SETTINGS)  # compiles
    begin = time.perf_counter()
    found, rejected = rewrite(authors, wanted, judges, SETTINGS)
    seconds = time.perf_counter() - begin
    summary = summarize(found)
    table(f"{len(wanted)} sentences; {len(wanted) / seconds:.2f} a second", summary.to_dicts())
    heavier = summarize(rewrite(authors, wanted, judges, SETTINGS.replace(lambda_policy=HEAVIER))[0])
    table(f"the same with λ_policy = {HEAVIER:g}", heavier.to_dicts())

    calls = (SETTINGS.iterations + 1) * SETTINGS.num_paths * (MAX_WORDS + 1)
    half = wanted[:compared] + wanted[len(by_direction["negative"]) :][:compared]
    rows = [
        compare(authors, author, sentence, towards, found, lambda_path, calls)
        for sentence, towards in half
        for author in authors
        for lambda_path in LAMBDAS
    ]
    beside = pl.DataFrame(rows)
    shares = beside.group_by("author", "lambda_path", maintain_order=True).agg(
        pl.col("ppr", "samples", "beam").mean(),
        at_least_samples=(pl.col("ppr") >= pl.col("samples") - TOLERANCE).mean(),
        at_least_beam=(pl.col("ppr") >= pl.col("beam") - TOLERANCE).mean(),
        shortfall_samples=(pl.col("samples") - pl.col("ppr")).clip(0).mean(),
        shortfall_beam=(pl.col("beam") - pl.col("ppr")).clip(0).mean(),
        different=pl.col("text").n_unique() / pl.len(),
        beam_different=pl.col("beam_text").n_unique() / pl.len(),
        distance=pl.col("distance").mean(),
        beam_distance=pl.col("beam_distance").mean(),
        own=pl.col("own").mean(),
        beam_own=pl.col("beam_own").mean(),
        samples_s=pl.col("samples_s").median(),
        beam_s=pl.col("beam_s").median(),
    )
    table(f"R, with {calls:,} steps of the language model each, {2 * compared} sentences", shares.to_dicts())
    finish(
        "text",
        {
            "corpora": {a.name: float(a.perplexity) for a in authors},
            "sentences": len(wanted),
            "sentences_per_second": len(wanted) / seconds,
            "rejected": rejected,
            "lambda_policy": SETTINGS.lambda_policy,
            "summary": summary.to_dicts(),
            "heavier_lambda_policy": HEAVIER,
            "heavier": heavier.to_dicts(),
            "language_model_steps": calls,
            "sentences_compared": len(half),
            "compared": shares.to_dicts(),
            "beam_texts": beside.group_by("author", "lambda_path", maintain_order=True)
            .agg(pl.col("beam_text").mode().sort().first())
            .to_dicts(),
            "at_least_samples": float((beside["ppr"] >= beside["samples"] - TOLERANCE).mean()),
            "at_least_beam": float((beside["ppr"] >= beside["beam"] - TOLERANCE).mean()),
            "perplexity": None if gguf is None else fluency(found, gguf),
        },
    )


def compare(
    authors: list[Any], author: Any, sentence: str, towards: Any, found: pl.DataFrame, lambda_path: float, calls: int
) -> dict[str, Any]:
    """R of the best rewriting by PPR, by samples and by beams, -inf where none has the wanted sentiment; and how far
    PPR's and the beams' are, and whether they are likelier under their own author."""
    task = text.task(author, sentence, towards=towards, max_words=MAX_WORDS)
    config = SETTINGS.replace(lambda_path=lambda_path)
    own = found.filter(sentence=sentence, author=author.name, lambda_path=lambda_path)
    row = own.filter(status="reached_goal")
    begin = time.perf_counter()
    samples = float(best_of_samples(task, config, calls))
    middle = time.perf_counter()
    beam, tokens = max(
        (beam_search(task, config, calls // len(JUDGED), weight) for weight in JUDGED), key=lambda found: found[0]
    )
    beam_s = time.perf_counter() - middle
    original = task.env.original.symbols[0]
    ended = np.array([task.env.num_tokens, *tokens, original[-1]])
    beam_text = task.env.texts(Paths.from_lists([ended.tolist()]))[0]
    likely = {a.name: float(text.log_probs(a, [beam_text])[0]) for a in authors}
    return {
        "author": author.name,
        "lambda_path": lambda_path,
        "ppr": row["reward"][0] if len(row) else -np.inf,
        "samples": samples,
        "beam": beam,
        "text": own["recourse"][0],
        "beam_text": beam_text,
        "distance": own["distance"][0],
        "beam_distance": int(edit_distance.levenshtein(original, ended)),
        "own": summarize(own)["own"][0],
        "beam_own": float(likely[author.name] >= max(likely.values())),
        "samples_s": middle - begin,
        "beam_s": beam_s,
    }


def best_of_samples(task: Any, config: Any, calls: int) -> jax.Array:
    """R of the best of as many sentences, drawn from P_A, as take so many steps of the language model."""
    original = task.env.original
    rounds = calls // (config.num_paths * task.horizon)
    return _samples(task, original.symbols[0], original.lengths[0], original.actions[0], config, rounds=rounds)


@partial(jax.jit, static_argnames="rounds")
def _samples(task, symbols, length, actions, config, *, rounds: int):
    original = trace(task, symbols, length, jax.random.key(0), actions)

    def draw(key):
        lanes = Behaviour(
            forced=jnp.full((config.num_paths, task.horizon), PAD),
            explore=jnp.ones((config.num_paths, task.horizon), bool),
            from_policy=jnp.ones(config.num_paths, bool),
            uniform=jax.random.uniform(key, (config.num_paths, task.horizon)),
        )
        drawn = jax.vmap(lambda lane: rollout(task, original, lane, config, key))(lanes)
        best = ranking.best_of(drawn)
        return jnp.where(best.met, best.reward, -jnp.inf)

    return jax.lax.map(draw, jax.random.split(jax.random.key(1), rounds)).max()


def beam_search(task: Any, config: Any, calls: int, weight: float) -> tuple[float, list[int]]:
    """R and tokens of the best sentence that a beam search ends, with so many steps of the language model.

    A prefix is worth λ_policy·R_policy + λ_path / (m + 1), m the fewest edits with which a sentence that goes on from
    it can end, and `weight` times the wanted sentiment that the judge finds in it. At each step every prefix that is
    kept is also ended and judged.
    """
    width = calls // task.horizon
    nodes = _roots(task, task.env.original.symbols[0], width)
    alive, best, tokens = np.arange(width) == 0, -np.inf, []
    for t in range(task.horizon):
        if t:
            reward, prefix = _ended(task, config, nodes, jnp.asarray(alive))
            if reward > best:
                best, tokens = float(reward), prefix[:t].tolist()
        if t + 1 < task.horizon:
            nodes, left = _grow(task, config, nodes, jnp.asarray(alive), weight)
            alive = np.asarray(left)
    return best, tokens


@partial(jax.jit, static_argnames="width")
def _roots(task, original, width: int):
    state = task.reset(jax.random.key(0))
    column = edit_distance.append(edit_distance.start(original), edit_distance.matches(original, task.symbol(state)))
    root = state, column, jnp.float32(0.0), original
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (width, *jnp.shape(x))), root)


@jax.jit
def _ended(task, config, nodes, alive):
    """The best R of all these prefixes, each ended, and that prefix; the end is action 0."""

    def one(state, column, habits, original):
        ended, score, _ = task.step(jax.random.key(0), state, jnp.int32(0))
        column = edit_distance.append(column, edit_distance.matches(original, state.offers[0]))
        habits = habits + link(jnp.exp(state.log_probs[0]), task.params.size)
        distance = edit_distance.distance(column, jnp.int32(len(original)))
        lambdas = {"lambda_path": config.lambda_path, "lambda_policy": config.lambda_policy}
        return jnp.where(ended.met, total(score, similarity(distance), habits, **lambdas), -jnp.inf)

    rewards = jnp.where(alive, jax.vmap(one)(*nodes), -jnp.inf)
    return jnp.max(rewards), nodes[0].prefix[jnp.argmax(rewards)]


@jax.jit
def _grow(task, config, nodes, alive, weight):
    """The most promising prefixes that are one word longer."""
    width = alive.shape[0]

    def worth(state, column, habits, original):
        def child(token, log_prob):
            grown = edit_distance.append(column, edit_distance.matches(original, token))
            smallest, _ = edit_distance.alignment(grown, original, jnp.int32(len(original)))
            more = habits + link(jnp.exp(log_prob), task.params.size)
            return config.lambda_policy * more + config.lambda_path * similarity(smallest)

        _, score, _ = task.step(jax.random.key(0), state, jnp.int32(0))  # as if it ended here
        allowed = task.available(state).at[0].set(False)
        values = jax.vmap(child)(state.offers, state.log_probs) + weight * jnp.where(state.time > 0, score, 0.0)
        return jnp.where(allowed, values, -jnp.inf)

    def follow(state, column, habits, original, action):
        token, log_prob = state.offers[action], state.log_probs[action]
        column = edit_distance.append(column, edit_distance.matches(original, token))
        after, _, _ = task.step(jax.random.key(0), state, action)
        return after, column, habits + link(jnp.exp(log_prob), task.params.size), original

    values = jnp.where(alive[:, None], jax.vmap(worth)(*nodes), -jnp.inf)
    value, at = jax.lax.top_k(values.ravel(), width)
    parents = jax.tree.map(lambda x: x[at // task.num_actions], nodes)
    return jax.vmap(follow)(*parents, (at % task.num_actions).astype(jnp.int32)), jnp.isfinite(value)


def fluency(found: pl.DataFrame, gguf: Path) -> dict[str, Any]:
    """The median perplexity under an independent model: of the originals, and of each author's rewritings."""
    from pprjax_envs.text.huggingface import LanguageModel

    model = LanguageModel(str(gguf.parent), gguf_file=gguf.name, start="<|endoftext|>")  # as SmolLM2 was trained
    figures = {"originals": float(np.median(model.perplexity(found["sentence"].unique(maintain_order=True).to_list())))}
    for (name, lambda_path), rows in found.group_by("author", "lambda_path", maintain_order=True):
        figures[f"{name}, λ_path {lambda_path:g}"] = float(np.median(model.perplexity(rows["recourse"].to_list())))
    return figures


if __name__ == "__main__":
    tyro.cli(main)
