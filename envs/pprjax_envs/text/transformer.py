"""A transformer that writes as one author does, which serves as P_A; trained in minutes, one token a step in rollouts.

As in Personalized Path Recourse (arXiv 2312.08724): two layers, two heads, width 200, feed-forward 200, dropout 0.2.
Normalization stands before each sub-layer and the read-out is tied to the embeddings; both train faster.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.paths import PAD
from pprjax_envs import weights
from pprjax_envs.sequence import log_probs
from pprjax_envs.text.corpus import END, JOINED, UNKNOWN, Corpus, Vocabulary, vocabulary

ROW = 64
"""Tokens of a row of training: whole sentences, one behind the other, that do not see each other."""

LOOK = 25
"""Minibatches between two looks at held-out sentences."""

EVALUATED = 16
"""Rows that are looked at together."""


@struct.dataclass(kw_only=True)
class Architecture:
    """The shape of a transformer; the paper's by default."""

    width: int = struct.field(pytree_node=False, default=200)
    layers: int = struct.field(pytree_node=False, default=2)
    heads: int = struct.field(pytree_node=False, default=2)
    feed_forward: int = struct.field(pytree_node=False, default=200)
    dropout: float = struct.field(pytree_node=False, default=0.2)


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


class _Block(nn.Module):
    shape: Architecture
    dtype: Any

    def setup(self):
        dense = lambda features: nn.Dense(features, dtype=self.dtype)  # noqa: E731
        self.before_attention, self.before_hidden = nn.LayerNorm(), nn.LayerNorm()
        self.inward, self.outward = dense(3 * self.shape.width), dense(self.shape.width)
        self.hidden, self.shrink = dense(self.shape.feed_forward), dense(self.shape.width)
        self.drop = nn.Dropout(self.shape.dropout)

    def project(self, x: Array) -> tuple[Array, Array, Array]:
        """Query, key and value."""
        return tuple(jnp.split(self.inward(self.before_attention(x)), 3, axis=-1))  # pyright: ignore

    def attend(self, x, query, keys, values, mask, *, deterministic: bool = True):
        """x [..., q, w] after attention to keys and values [..., k, w] where mask [..., q, k], and the hidden layer."""
        parts = [v.reshape(*v.shape[:-1], self.shape.heads, -1).swapaxes(-2, -3) for v in (query, keys, values)]
        q, k, v = parts
        scores = (q @ k.swapaxes(-1, -2)) * q.shape[-1] ** -0.5
        share = jax.nn.softmax(jnp.where(mask[..., None, :, :], scores.astype(jnp.float32), -1e30), axis=-1)
        mixed = (self.drop(share, deterministic=deterministic).astype(v.dtype) @ v).swapaxes(-2, -3)
        x = x + self.drop(self.outward(mixed.reshape(query.shape)), deterministic=deterministic)
        inner = self.drop(nn.relu(self.hidden(self.before_hidden(x))), deterministic=deterministic)
        return x + self.drop(self.shrink(inner), deterministic=deterministic)


class Transformer(nn.Module):
    """Logits of the next token, for rows of tokens or one token behind a cache."""

    shape: Architecture
    num_tokens: int  # tokens before those that joined; the start is token num_tokens
    dtype: Any = jnp.float32

    def setup(self):
        scale = nn.initializers.normal(self.shape.width**-0.5)
        self.embed = nn.Embed(self.num_tokens + 1, self.shape.width, embedding_init=scale)
        self.bias = self.param("bias", nn.initializers.zeros, (self.num_tokens,))
        self.blocks = [_Block(self.shape, self.dtype) for _ in range(self.shape.layers)]
        self.final = nn.LayerNorm()
        self.drop = nn.Dropout(self.shape.dropout)

    def enter(self, tokens: Int[Array, "*b"], places: Int[Array, "*b"]) -> Float[Array, "*b w"]:
        return self.embed(tokens) * self.shape.width**0.5 + _sinusoids(places, self.shape.width)

    def read(self, x: Float[Array, "*b w"]) -> Float[Array, "*b V"]:
        table = self.embed.embedding[:-1].astype(self.dtype)
        return (self.final(x).astype(self.dtype) @ table.T).astype(jnp.float32) + self.bias

    def __call__(
        self,
        tokens: Int[Array, "*b L"],
        places: Int[Array, "*b L"],
        sentences: Int[Array, "*b L"],
        deterministic: bool = True,
    ) -> Float[Array, "*b L V"]:
        """For each place, what follows; a token sees those before it in its own sentence."""
        length = tokens.shape[-1]
        mask = (sentences[..., :, None] == sentences[..., None, :]) & jnp.tri(length, dtype=bool)
        x = self.drop(self.enter(tokens, places), deterministic=deterministic)
        for block in self.blocks:
            x = block.attend(x, *block.project(x), mask, deterministic=deterministic)
        return self.read(x)

    def step(self, cache: Cache, token: Int[Array, ""]) -> tuple[Cache, Float[Array, " V"]]:
        """What follows after one more token, and the cache with it: O(1) passes, whatever stands before."""
        x = self.enter(token, cache.length)[None]
        places = jnp.arange(cache.keys.shape[1])
        here, seen = (places == cache.length)[:, None], (places <= cache.length)[None]
        keys, values = [], []
        for block, old_keys, old_values in zip(self.blocks, cache.keys, cache.values, strict=True):
            query, key, value = block.project(x)
            keys.append(jnp.where(here, key, old_keys))
            values.append(jnp.where(here, value, old_values))
            x = block.attend(x, query, keys[-1], values[-1], seen)
        grown = Cache(keys=jnp.stack(keys), values=jnp.stack(values), length=cache.length + 1)
        return grown, self.read(x[0])


@struct.dataclass
class Cache:
    """Keys and values of the tokens so far."""

    keys: jax.Array  # float[layers, L, width]
    values: jax.Array  # float[layers, L, width]
    length: jax.Array  # int32[], tokens so far; the L + 1st replaces none, and is not remembered


@struct.dataclass
class TransformerPolicy:
    """P_A: p(next token | the tokens so far), the start included. A word that joined the vocabulary has a rare word's
    share of UNKNOWN's probability, and enters as UNKNOWN; UNKNOWN itself is never written."""

    params: Any
    shape: Architecture
    known: jax.Array  # bool[num_tokens], tokens that have a word
    joined: jax.Array  # bool[JOINED], tokens behind them that a word may have joined as
    log_rare: jax.Array  # float[], log of the number of words that UNKNOWN stands for
    num_tokens: int = struct.field(pytree_node=False)
    room: int = struct.field(pytree_node=False, default=ROW)  # tokens that the cache has room for

    @property
    def network(self) -> Transformer:
        return Transformer(self.shape, self.num_tokens)

    def init(self) -> Cache:
        shape = self.shape.layers, self.room, self.shape.width
        return Cache(keys=jnp.zeros(shape), values=jnp.zeros(shape), length=jnp.int32(0))

    def step(self, carry: Cache, state: Any) -> tuple[Cache, Float[Array, " V"]]:
        """The cache after `state.symbol`, and log P_A of the next token."""
        start = self.num_tokens + JOINED
        token = jnp.where(state.symbol < self.num_tokens, state.symbol, UNKNOWN)
        token = jnp.where(state.symbol == start, self.num_tokens, token)
        carry, logits = self.network.apply(self.params, carry, token, method="step")
        log_probs = jax.nn.log_softmax(jnp.where(self.known, jnp.asarray(logits), -jnp.inf))
        joined = jnp.where(self.joined, log_probs[UNKNOWN] - self.log_rare, -jnp.inf)
        return carry, jnp.concatenate([log_probs.at[UNKNOWN].set(-jnp.inf), joined])


@struct.dataclass
class Author:
    """An author's vocabulary and voice."""

    name: str = struct.field(pytree_node=False)
    vocabulary: Vocabulary = struct.field(pytree_node=False)
    policy: TransformerPolicy
    perplexity: jax.Array  # float[], a token of held-out sentences, ends included


@struct.dataclass
class _Rows:
    """Sentences packed into rows of ROW tokens."""

    tokens: Any  # int32[N, ROW], what is read; the start begins each sentence
    following: Any  # int32[N, ROW], what follows; PAD behind the last sentence
    places: Any  # int32[N, ROW], in the sentence
    sentences: Any  # int32[N, ROW], their number in the row


def trained(
    corpus: Corpus,
    training: Training = Training(),
    shape: Architecture = Architecture(),
    *,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Author, bool]:
    """An author trained on a corpus, read back if that was done before with these settings; and whether it was.

    A training that was killed goes on from its last checkpoint, and gives what it would have given.

    Args:
        folder: where weights are kept; default `weights.cache_folder()`.
        watch: called with the steps done and the held-out perplexity so far, infinite at first.
    """
    words = vocabulary(corpus, training.vocabulary)
    text = np.frombuffer("\n".join(map(" ".join, corpus.sentences)).encode(), np.uint8)
    name = "text-" + weights.digest(text, repr((training, shape)), seed)
    root = weights.chosen_folder(folder)
    made, reloaded = weights.remembered(
        name,
        lambda: train(corpus, words, training, shape, seed=seed, checkpoints=root / f"{name}.part", watch=watch),
        like=lambda: (_blank(words, training, shape, seed), jnp.zeros(())),
        folder=root,
    )
    params, perplexity = made
    policy = TransformerPolicy(
        params=params,
        shape=shape,
        known=jnp.arange(words.size) < len(words.words),
        joined=jnp.ones(JOINED, bool),
        log_rare=jnp.log(jnp.float32(words.num_rare)),
        num_tokens=words.size,
    )
    return Author(name=corpus.name, vocabulary=words, policy=policy, perplexity=perplexity), reloaded


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
    test, rows = (_pack([encoded[i] for i in part], words.size) for part in (held, order[len(held) :]))
    network, key = _network(shape, training, words.size), jax.random.key(seed)
    params = _blank(words, training, shape, seed)
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


def sentence_log_probs(author: Author, sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, " N"]:
    """log P of each sentence, a list of words, its end included; words that the author never used count as rare ones.

    Raises:
        ValueError: a sentence is longer than the author's memory.
    """
    longest = max(map(len, sentences), default=0)
    if longest >= author.policy.room:
        raise ValueError(f"sentences: expected at most {author.policy.room - 1} words, got {longest}")
    own = [author.vocabulary.encode(words) for words in sentences]
    start, room = author.vocabulary.num_tokens, -(-(longest + 1) // 8) * 8
    tokens = np.full((len(sentences), room), PAD, np.int32)
    for row, ids in zip(tokens, own, strict=True):
        ids = np.where(ids == UNKNOWN, author.vocabulary.size, ids)  # any that joined: all are as likely
        row[: len(ids) + 1] = [*ids, END]
    return np.where(tokens == PAD, 0.0, log_probs(author.policy, tokens, start)).sum(1)


def _pack(sentences: list[np.ndarray], start: int) -> _Rows:
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


def _blank(words: Vocabulary, training: Training, shape: Architecture, seed: int) -> Any:
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


def _sinusoids(places: Int[Array, "*b"], width: int) -> Float[Array, "*b w"]:
    rate = jnp.exp(jnp.arange(0, width, 2) * (-np.log(10_000.0) / width))
    angle = places[..., None] * rate
    return jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(*places.shape, -1)[..., :width]
