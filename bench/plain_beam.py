"""What one would try first in place of pprjax's search: one beam for one pair of λ, over the whole vocabulary.

A prefix is worth λ_policy·R_policy + λ_path / (m + 1), m the fewest edits with which a sentence that goes on from it
can end, and `weight` times the wanted sentiment that the judge finds in it. Every prefix that is kept is also ended.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from pprjax import edit_distance
from pprjax.config import Config
from pprjax.paths import Paths
from pprjax.reward import similarity, total
from pprjax.rollout import trace
from pprjax.search.nodes import Search
from pprjax.task import Task


@struct.dataclass
class Kept:
    """Prefixes of one length."""

    state: Any
    carry: Any
    column: Any
    habits: jax.Array  # float[W], R_policy so far
    tokens: jax.Array  # int32[W, T], -1 after the last
    alive: jax.Array  # bool[W]


def beam_search(task: Task, original: Paths, config: Config, *, width: int, weight: float) -> tuple[float, list[int]]:
    """The largest R of the sentences that were found, -inf if none has the wanted sentiment; and its tokens.

    It calls the language model for 1 + width·(T - 2) prefixes at most, T steps, and the judge for one less.
    """
    reward, tokens = _beam(task, original.symbols[0], original.lengths[0], original.actions[0], config, weight, width)
    return float(reward), [int(token) for token in tokens if token >= 0]


@partial(jax.jit, static_argnames="width")
def _beam(task, symbols, length, actions, config, weight, width: int):
    search = Search(task, trace(task, symbols, length, jax.random.key(0), actions), config.objective.for_frontier)
    state = task.reset(jax.random.key(0))
    column = search.longer(edit_distance.start(symbols, search.objective.costs), task.symbol(state))
    none = jnp.full(task.horizon, -1, jnp.int32)
    start = dict(state=state, carry=task.policy.init(), column=column, habits=jnp.float32(0.0), tokens=none)
    root = Kept(**start, alive=jnp.bool_(True))
    kept = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], width, axis=0), root)
    kept = kept.replace(alive=jnp.arange(width) == 0)

    def layer(carried, _):
        kept, best, tokens = carried
        kept, reward, prefix = _grown(search, kept, config, weight)
        tokens = jnp.where(reward > best, prefix, tokens)
        return (kept, jnp.maximum(best, reward), tokens), None

    (_, best, tokens), _ = jax.lax.scan(layer, (kept, jnp.float32(-jnp.inf), none), None, length=task.horizon)
    return best, tokens


def _grown(search: Search, kept: Kept, config: Config, weight: Any) -> tuple[Kept, Float[Array, ""], Array]:
    """The prefixes that are one word longer; the best R of those that are ended here, and its prefix."""
    task, end, key = search.task, jnp.int32(search.task.env.end), jax.random.key(0)
    width, symbols = len(kept.alive), jnp.arange(task.num_actions)

    def look(node: Kept):
        carry, log_probs = task.log_probs(node.carry, node.state)
        habits = node.habits + task.habits(node.state, log_probs, config.habit)
        distance = edit_distance.distance(search.longer(node.column, end), search.original.length)
        sentence, score, _ = task.step(key, node.state, end)
        terms = (score, similarity(distance), habits[end])
        ended = total(*terms, lambda_path=config.lambda_path, lambda_policy=config.lambda_policy)
        value = config.lambda_policy * habits + weight * score
        value = value + config.lambda_path * similarity(search.smallest_after(node.column, symbols))
        allowed = task.available(node.state) & (symbols != end) & node.alive
        return carry, habits, jnp.where(allowed, value, -jnp.inf), jnp.where(node.alive & sentence.met, ended, -jnp.inf)

    carry, habits, value, ended = jax.vmap(look)(kept)
    worth, rows = jax.lax.top_k(value.ravel(), width)
    parent, action = jnp.divmod(rows, task.num_actions)

    def follow(parent, action, worth):
        node = jax.tree.map(lambda x: x[parent], kept)
        state, _, _ = task.step(key, node.state, action)
        column, after = search.longer(node.column, action), jax.tree.map(lambda x: x[parent], carry)
        tokens = node.tokens.at[node.state.time].set(action)
        longer = dict(state=state, carry=after, column=column, habits=habits[parent, action], tokens=tokens)
        return Kept(**longer, alive=jnp.isfinite(worth))

    first = jnp.argmax(ended)
    return jax.vmap(follow)(parent, action, worth), ended[first], kept.tokens[first]
