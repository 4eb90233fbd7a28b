"""Small worlds of sequences, whose judge and agent have a memory, and all of their sequences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from pprjax_envs import SequenceEnv

import pprjax
from pprjax.goals import class_is
from pprjax.ladder import Wanted
from pprjax.search.points import search_points

V, L = 4, 4
ALL = np.array(list(itertools.product(range(V), repeat=L)))


@struct.dataclass
class Votes:
    """Each symbol at each place speaks for a class, and pairs do: a classifier with a memory."""

    weights: jax.Array  # float[L, V + 1, V, 2]

    def init(self):
        return jnp.zeros(2), jnp.int32(0), jnp.int32(self.weights.shape[2])

    def step(self, carry, symbol):
        votes, place, before = carry
        return votes + self.weights[place, before, symbol], place + 1, symbol

    def log_probs(self, carry):
        return jax.nn.log_softmax(carry[0])


@struct.dataclass
class Chain:
    """P_A depends on the last two symbols."""

    logits: jax.Array  # float[V + 1, V + 1, V]

    def init(self):
        return jnp.int32(self.logits.shape[2])

    def step(self, carry, state):
        return state.symbol, jax.nn.log_softmax(self.logits[carry, state.symbol])


def sequences(seed, scale=2.0, num_symbols=V):
    rng = np.random.default_rng(seed)
    room = num_symbols + 1
    judge = Votes(jnp.asarray(scale * rng.standard_normal((L, room, num_symbols, 2)), jnp.float32))
    agent = Chain(jnp.asarray(1.5 * rng.standard_normal((room, room, num_symbols)), jnp.float32))
    return pprjax.Task(SequenceEnv(judge, 1, num_symbols=num_symbols, length=L), agent, goal=class_is(1))


def searched(task, originals, config, **options):
    """The points of every number of edits of these sequences."""
    wanted = Wanted(num_distances=task.env.length + 1)
    return search_points(task, task.env.paths(originals), config.objective.for_frontier, wanted=wanted, **options)
