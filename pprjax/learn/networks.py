"""Flax Q-networks."""

from __future__ import annotations

from functools import partial
from typing import cast

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class WithMemory(nn.Module):
    """An encoder of a world's observation, beside what rules remember, as one of Q numbers at its end."""

    encoder: nn.Module
    num_memories: int  # Q
    width: int

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array | None]:
        features, actions = self.encoder(observation[: -self.num_memories])
        memory = nn.Dense(self.width, use_bias=False, name="memory")(observation[-self.num_memories :])
        return features + memory, actions


class QNetwork(nn.Module):
    """Q(s, ·) or, alignment-aware, Q(s, j, t, ·): summed embeddings, then an MLP.

    The first layer is Dense on (one-hot state or observation, one-hot j, one-hot t), written as a sum of embeddings.
    The last one has weights of its own for each t on top of those for all, since with a horizon what is best can turn
    from one step to the next; the lanes of a rollout share t, so it costs them nothing.
    """

    num_actions: int  # A
    num_states: int | None  # S of a finite world, whose observation is its id; None: a float vector
    num_positions: int  # n + 1, values that j takes
    num_times: int  # T + 1, values that t takes
    width: int = 128  # of each layer
    depth: int = 1  # hidden layers after the embeddings
    alignment_aware: bool = True  # see j and t
    dueling: bool = False  # Q = V + A - mean A (Wang et al. 2016)
    encoder: nn.Module | None = None  # reads the observation: features[width], and a vector[width] of each action

    @nn.compact
    def __call__(
        self, observation: Array, position: Int[Array, ""], time: Int[Array, ""], action: Int[Array, ""] | None = None
    ) -> Float[Array, " A"] | Float[Array, ""]:
        """Q of all actions, or of one, whose gradient is then one row of the last layer and not A."""
        # a scale that no size of the table enters: an original starts from the same weights however far it is padded
        embed = partial(nn.Embed, features=self.width, embedding_init=nn.initializers.normal(self.width**-0.5))
        actions = None
        if self.encoder is not None:
            x, actions = self.encoder(observation)
        elif self.num_states is None:
            x = nn.Dense(self.width, name="observation")(observation)
        else:
            x = embed(self.num_states, name="state")(observation)
        if self.alignment_aware:
            x = x + embed(self.num_positions, name="position")(position)
            x = x + embed(self.num_times, name="time")(time)
        x = nn.relu(x)
        for i in range(self.depth):
            x = nn.relu(nn.Dense(self.width, name=f"hidden_{i}")(x))
        one = action is not None and not self.dueling  # the mean advantage needs all
        wanted = cast(Array, action) if one else jnp.arange(self.num_actions)
        advantage = nn.Dense(self.num_actions, name="advantage", kernel_init=nn.initializers.zeros)(x)[wanted]
        if self.alignment_aware:
            rows = nn.Embed(
                self.num_times * self.num_actions, self.width, embedding_init=nn.initializers.zeros, name="advantage_at"
            )
            advantage = advantage + rows(time * self.num_actions + wanted) @ x
        if actions is not None:
            advantage = advantage + actions[wanted] @ x
        if not self.dueling:
            return advantage
        values = nn.Dense(1, name="value", kernel_init=nn.initializers.zeros)(x) + advantage - jnp.mean(advantage)
        return values if action is None else values[action]
