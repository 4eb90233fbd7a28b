"""A transformer that writes token by token, in rollouts one token a step.

As in Personalized Path Recourse (arXiv 2312.08724): two layers, two heads, width 200, feed-forward 200, dropout 0.2.
Normalization comes before each sub-layer, and the read-out is tied to the embeddings, through a matrix: both train
faster.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax_envs.text.corpus import JOINED, UNKNOWN

ROW = 64
"""Tokens of a row of training. A row holds whole sentences, which do not see each other."""


@struct.dataclass(kw_only=True)
class Architecture:
    """The shape of a transformer; the paper's by default."""

    width: int = struct.field(pytree_node=False, default=200)
    layers: int = struct.field(pytree_node=False, default=2)
    heads: int = struct.field(pytree_node=False, default=2)
    feed_forward: int = struct.field(pytree_node=False, default=200)
    dropout: float = struct.field(pytree_node=False, default=0.2)


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
    """Logits of the next token, for rows of tokens or one token after a cache."""

    shape: Architecture
    num_tokens: int  # tokens before those that joined; the start is token num_tokens
    dtype: Any = jnp.float32

    def setup(self):
        scale = nn.initializers.normal(self.shape.width**-0.5)
        self.embed = nn.Embed(self.num_tokens + 1, self.shape.width, embedding_init=scale)
        self.bias = self.param("bias", nn.initializers.zeros, (self.num_tokens,))
        self.blocks = [_Block(self.shape, self.dtype) for _ in range(self.shape.layers)]
        self.final = nn.LayerNorm()
        self.turn = nn.Dense(self.shape.width, use_bias=False, dtype=self.dtype)
        self.drop = nn.Dropout(self.shape.dropout)

    def enter(self, tokens: Int[Array, "*b"], places: Int[Array, "*b"]) -> Float[Array, "*b w"]:
        return self.embed(tokens) * self.shape.width**0.5 + _sinusoids(places, self.shape.width)

    def read(self, x: Float[Array, "*b w"]) -> Float[Array, "*b V"]:
        """Through a matrix of its own: else a word's embedding, which x still holds, would make it follow itself."""
        table = self.embed.embedding[:-1].astype(self.dtype)
        return (self.turn(self.final(x)) @ table.T).astype(jnp.float32) + self.bias

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
    joined: jax.Array  # bool[JOINED], later tokens that a word may have joined as
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


def _sinusoids(places: Int[Array, "*b"], width: int) -> Float[Array, "*b w"]:
    rate = jnp.exp(jnp.arange(0, width, 2) * (-np.log(10_000.0) / width))
    angle = places[..., None] * rate
    return jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(*places.shape, -1)[..., :width]
