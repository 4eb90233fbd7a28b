"""How a transformer is fitted to a corpus: sentences packed into rows, checkpoints, and early stopping."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Bool, Float

from pprjax.paths import PAD
from pprjax_envs.text.corpus import END, Corpus, Vocabulary
from pprjax_envs.text.transformer import ROW, Architecture, Transformer

LOOK = 25
"""Minibatches between two looks at held-out sentences."""

EVALUATED = 16
"""Rows that are looked at together."""


@struct.dataclass(kw_only=True)
class Training:
    """How a transformer is trained: AdamW on minibatches of rows, until held-out sentences get no likelier."""

    vocabulary: int = 8000
    """Tokens, with those for the end and for rare words."""
    steps: int = 600
    """Minibatches at most."""
    rows: int = 32
    """Rows of 64 tokens in a minibatch."""
    learning_rate: float = 3e-3
    """The largest step size: it rises over the first tenth of the steps and falls to 0 along a cosine."""
    weight_decay: float = 0.05
    """Decoupled weight decay."""
    held_out: float = 0.03
    """The share of the sentences that is held out."""
    patience: int = 3
    """Training ends when the held-out perplexity was no better at this many looks in a row."""
    bfloat16: bool = False
    """Multiply matrices in bfloat16, for accelerators: a CPU takes twice as long. Perplexity is the same within 1 %."""


def train(
    corpus: Corpus,
    words: Vocabulary,
    training: Training,
    shape: Architecture,
    *,
    seed: int = 0,
    checkpoints: Path | None = None,
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Any, Float[Array, ""]]:
    """Weights fitted by maximum likelihood of each next token, and the perplexity of held-out sentences.

    Args:
        checkpoints: a folder for one checkpoint at each look, from which the same call goes on; removed at the end.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(corpus.sentences))
    held = order[: max(1, round(training.held_out * len(order)))]
    encoded = [words.encode(sentence) for sentence in corpus.sentences]
    test, rows = (pack([encoded[i] for i in part], words.size) for part in (held, order[len(held) :]))
    network, key = _network(shape, training, words.size), jax.random.key(seed)
    params = blank_params(words, training, shape, seed)
    state = _State(
        params=params, moments=_optimizer(training).init(params), step=0, best=params, perplexity=np.inf, stale=0
    )
    kept = None if checkpoints is None else _Checkpoints(checkpoints)
    state = state if kept is None else kept.latest(state)
    while state.step < training.steps and state.stale < training.patience:
        if watch:
            watch(state.step, state.perplexity)
        count = min(LOOK, training.steps - state.step)
        params, moments = _fit(network, training, state.params, state.moments, rows, key, state.step, count)
        perplexity = _perplexity(network, params, test)
        better = perplexity < state.perplexity
        state = _State(
            params=params,
            moments=moments,
            step=state.step + count,
            best=params if better else state.best,
            perplexity=min(perplexity, state.perplexity),
            stale=0 if better else state.stale + 1,
        )
        if kept is not None:
            kept.save(state)
    if watch:
        watch(training.steps, state.perplexity)
    if kept is not None:
        kept.remove()
    return state.best, jnp.float32(state.perplexity)


@struct.dataclass
class _Rows:
    """Sentences packed into rows of ROW tokens."""

    tokens: Any  # int32[N, ROW], what is read; the start begins each sentence
    following: Any  # int32[N, ROW], what follows; PAD after the last sentence
    places: Any  # int32[N, ROW], in the sentence
    sentences: Any  # int32[N, ROW], their number in the row


@struct.dataclass
class _State:
    params: Any
    moments: Any
    step: Any  # minibatches so far
    best: Any  # the params of the lowest perplexity
    perplexity: Any
    stale: Any  # looks since then


class _Checkpoints:
    """The last state, in a folder that is whole at any moment."""

    def __init__(self, folder: Path):
        import orbax.checkpoint as ocp  # takes a second to import

        self._ocp = ocp
        self._folder = folder
        self._manager = ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=1))

    def latest(self, blank: _State) -> _State:
        """The state saved last; `blank` where there is none."""
        step = self._manager.latest_step()
        if step is None:
            return blank
        like = jax.tree.map(np.asarray, blank)
        state: Any = self._manager.restore(step, args=self._ocp.args.StandardRestore(like))
        return replace(state, step=int(state.step), stale=int(state.stale), perplexity=float(state.perplexity))

    def save(self, state: _State) -> None:
        arrays = jax.tree.map(np.asarray, state)
        try:
            self._manager.save(int(state.step), args=self._ocp.args.StandardSave(arrays))
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:  # as where another process trains the same author
            warnings.warn(f"text: can't write a checkpoint to {self._folder} ({error})", stacklevel=2)

    def remove(self) -> None:
        self._manager.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def pack(sentences: list[np.ndarray], start: int) -> _Rows:
    """Sentences in their order, each in the first row that has room for it and its start; long ones are cut."""
    rows, current = [], []
    for tokens in sentences:
        read = np.concatenate([[start], tokens])[:ROW]
        following = np.concatenate([tokens, [END]])[:ROW]
        if sum(len(r) for r, _ in current) + len(read) > ROW:
            rows.append(current)
            current = []
        current.append((read, following))
    rows.append(current)
    packed = _Rows(*(np.full((len(rows), ROW), value, np.int32) for value in (END, PAD, 0, -1)))
    for i, row in enumerate(rows):
        at = 0
        for number, (read, following) in enumerate(row):
            there = i, slice(at, at + len(read))
            packed.tokens[there], packed.following[there] = read, following
            packed.places[there], packed.sentences[there] = np.arange(len(read)), number
            at += len(read)
    return packed


def _network(shape: Architecture, training: Training, num_tokens: int) -> Transformer:
    return Transformer(shape, num_tokens, jnp.bfloat16 if training.bfloat16 else jnp.float32)


def blank_params(words: Vocabulary, training: Training, shape: Architecture, seed: int) -> Any:
    tokens = jnp.zeros(2, jnp.int32)
    return _network(shape, training, words.size).init(jax.random.key(seed), tokens, tokens, tokens)


def _optimizer(training: Training) -> optax.GradientTransformation:
    rise = max(1, training.steps // 10)
    schedule = optax.warmup_cosine_decay_schedule(0.0, training.learning_rate, rise, max(training.steps, rise + 1))
    return optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.98, weight_decay=training.weight_decay)
    )


def _losses(network: Any, params, rows: _Rows, **options) -> tuple[Array, Bool[Array, "N L"]]:
    logits = network.apply(params, rows.tokens, rows.places, rows.sentences, **options)
    there = rows.following != PAD
    return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(rows.following, 0)), there


@partial(jax.jit, static_argnames=("network", "training", "count"))
def _fit(network: Transformer, training: Training, params, moments, rows: _Rows, key, first, count: int):
    """`count` minibatches from number `first` on."""
    optimizer = _optimizer(training)

    def step(state, number):
        params, moments = state
        key_rows, key_drop = jax.random.split(jax.random.fold_in(key, number))
        chosen = jax.random.randint(key_rows, (training.rows,), 0, rows.tokens.shape[0])
        batch = jax.tree.map(lambda x: x[chosen], rows)

        def loss(params):
            losses, there = _losses(network, params, batch, deterministic=False, rngs={"dropout": key_drop})
            return jnp.sum(losses, where=there) / jnp.maximum(there.sum(), 1)

        gradient = jax.grad(loss)(params)
        updates, moments = optimizer.update(gradient, moments, params)
        return (optax.apply_updates(params, updates), moments), None

    return jax.lax.scan(step, (params, moments), first + jnp.arange(count))[0]


def _perplexity(network: Transformer, params, rows: _Rows) -> float:
    """exp of the mean loss of a token."""
    total = count = 0.0
    for low in range(0, len(rows.tokens), EVALUATED):
        at = np.arange(low, low + EVALUATED)
        part = jax.tree.map(lambda x, at=at: x[at % len(x)], rows)
        part = part.replace(following=np.where((at < len(rows.tokens))[:, None], part.following, PAD))
        losses, there = _evaluate(network, params, part)
        total, count = total + float(losses), count + float(there)
    return float(np.exp(total / max(count, 1.0)))


@partial(jax.jit, static_argnames="network")
def _evaluate(network, params, rows):
    losses, there = _losses(network, params, rows)
    return jnp.sum(losses, where=there), there.sum()
