"""LSTMs over symbols: a generator, which serves as P_A, and a classifier; trained in seconds, one symbol a step.

A symbol enters as its row in a table of features, float[V + 1, F]. The rows are one-hot where symbols have nothing in
common, and smooth where symbols are numbers, so that what is learned of 70 °F also holds for 71 °F.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax_envs.sequence import log_probs


class Network(nn.Module):
    """An LSTM cell and a linear read-out of its hidden state."""

    width: int  # of the hidden state
    num_outputs: int

    def setup(self):
        self.cell = nn.OptimizedLSTMCell(self.width)
        self.head = nn.Dense(self.num_outputs)

    def __call__(self, carry: Any, features: Float[Array, " F"]) -> tuple[Any, Float[Array, " K"]]:
        carry, _ = self.cell(carry, features)
        return carry, self.head(carry[1])

    def read(self, carry: Any) -> Float[Array, " K"]:
        return self.head(carry[1])


@struct.dataclass
class LSTMClassifier:
    """p(class | the symbols so far), C classes."""

    params: Any
    features: jax.Array  # float[V + 1, F]
    width: int = struct.field(pytree_node=False)
    num_classes: int = struct.field(pytree_node=False)

    @property
    def network(self) -> Network:
        return Network(self.width, self.num_classes)

    def init(self) -> tuple[Array, Array]:
        return jnp.zeros(self.width), jnp.zeros(self.width)

    def step(self, carry: tuple[Array, Array], symbol: Int[Array, ""]) -> tuple[Array, Array]:
        return self.step_features(carry, self.features[symbol])

    def step_features(self, carry: tuple[Array, Array], features: Float[Array, " F"]) -> tuple[Array, Array]:
        """A step by a symbol's features rather than its number, so that gradients pass through it."""
        return self.network.apply(self.params, carry, features)[0]

    def log_probs(self, carry: tuple[Array, Array]) -> Float[Array, " C"]:
        return jax.nn.log_softmax(jnp.asarray(self.network.apply(self.params, carry, method="read")))


@struct.dataclass
class LSTMPolicy:
    """P_A: p(next symbol | the symbols so far), the start included. The read-out is tied to the features."""

    params: Any
    features: jax.Array  # float[V + 1, F], the last row that of the start
    width: int = struct.field(pytree_node=False)

    @property
    def network(self) -> Network:
        return Network(self.width, self.features.shape[1])

    def init(self) -> tuple[Array, Array]:
        return jnp.zeros(self.width), jnp.zeros(self.width)

    def step(self, carry: tuple[Array, Array], state: Any) -> tuple[tuple[Array, Array], Float[Array, " V"]]:
        """The carry after `state.symbol`, and log P_A of the next symbol."""
        carry, query = self.network.apply(self.params, carry, self.features[state.symbol])
        return carry, jax.nn.log_softmax(self.features[:-1] @ jnp.asarray(query))


@struct.dataclass(kw_only=True)
class Training:
    """How an LSTM is trained: Adam with decoupled weight decay, on minibatches drawn anew at each step."""

    width: int = 32
    """Units of the hidden state."""
    steps: int = 300
    """Minibatches."""
    batch_size: int = 64
    """Sequences in a minibatch."""
    learning_rate: float = 1e-2
    """The first step size; it falls to 0 along a cosine."""
    weight_decay: float = 0.1
    """Decoupled weight decay."""
    noise: float = 0.15
    """The share of a classifier's training symbols that is replaced at random, so that no odd symbol decides alone."""


def train_generator(
    sequences: Int[np.ndarray, "N L"],
    features: Float[np.ndarray, "V+1 F"],
    training: Training = Training(),
    *,
    key: jax.Array,
) -> LSTMPolicy:
    """P_A fitted to sequences by maximum likelihood of each next symbol."""
    blank = LSTMPolicy(params=None, features=jnp.asarray(features, jnp.result_type(float)), width=training.width)
    start = len(features) - 1

    def loss(policy, symbols, labels, key):
        del labels, key
        return -log_probs(policy, symbols, start).mean()

    return _train(blank, loss, sequences, np.zeros(len(sequences), np.int32), training, key)


def train_classifier(
    sequences: Int[np.ndarray, "N L"],
    labels: Int[np.ndarray, " N"],
    features: Float[np.ndarray, "V+1 F"],
    training: Training = Training(),
    *,
    key: jax.Array,
) -> LSTMClassifier:
    """A classifier fitted to labelled sequences, read to any length, by maximum likelihood of the label."""
    blank = LSTMClassifier(
        params=None,
        features=jnp.asarray(features, jnp.result_type(float)),
        width=training.width,
        num_classes=int(np.max(labels)) + 1,
    )

    def loss(classifier, symbols, labels, key):
        key_where, key_what = jax.random.split(key)
        replaced = jax.random.bernoulli(key_where, training.noise, symbols.shape)
        symbols = jnp.where(replaced, jax.random.randint(key_what, symbols.shape, 0, len(features) - 1), symbols)

        def one(symbols, label):
            def step(carry, symbol):
                carry = classifier.step(carry, symbol)
                return carry, classifier.log_probs(carry)[label]

            return jax.lax.scan(step, classifier.init(), symbols)[1]

        return -jax.vmap(one)(symbols, labels).mean()

    return _train(blank, loss, sequences, labels, training, key)


def _train(blank, loss, sequences, labels, training: Training, key: jax.Array):
    """`blank` with fitted params."""
    sequences, labels = jnp.asarray(sequences, jnp.int32), jnp.asarray(labels, jnp.int32)
    key_init, key_batches = jax.random.split(key)
    schedule = optax.cosine_decay_schedule(training.learning_rate, training.steps)
    optimizer = optax.adamw(schedule, weight_decay=training.weight_decay)

    def step(state, key):
        params, moments = state
        key_rows, key_noise = jax.random.split(key)
        rows = jax.random.randint(key_rows, (training.batch_size,), 0, len(sequences))

        def objective(params):
            return loss(blank.replace(params=params), sequences[rows], labels[rows], key_noise)

        value, gradient = jax.value_and_grad(objective)(params)
        updates, moments = optimizer.update(gradient, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    @jax.jit
    def fit():
        params = blank.network.init(key_init, blank.init(), blank.features[0])
        state = params, optimizer.init(params)
        return jax.lax.scan(step, state, jax.random.split(key_batches, training.steps))[0][0]

    return blank.replace(params=fit())
