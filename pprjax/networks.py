"""Flax Q-networks."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


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
    depth: int = 1  # hidden layers behind the embeddings
    alignment_aware: bool = True  # see j and t
    dueling: bool = False  # Q = V + A - mean A (Wang et al. 2016)

    @nn.compact
    def __call__(self, observation: Array, position: Int[Array, ""], time: Int[Array, ""]) -> Float[Array, " A"]:
        # a scale that no size of the table enters: an original starts from the same weights however far it is padded
        embed = partial(nn.Embed, features=self.width, embedding_init=nn.initializers.normal(self.width**-0.5))
        if self.num_states is None:
            x = nn.Dense(self.width, name="observation")(observation)
        else:
            x = embed(self.num_states, name="state")(observation)
        if self.alignment_aware:
            x = x + embed(self.num_positions, name="position")(position)
            x = x + embed(self.num_times, name="time")(time)
        x = nn.relu(x)
        for i in range(self.depth):
            x = nn.relu(nn.Dense(self.width, name=f"hidden_{i}")(x))
        advantage = nn.Dense(self.num_actions, name="advantage", kernel_init=nn.initializers.zeros)(x)
        if self.alignment_aware:
            size = self.width * self.num_actions
            kernel = nn.Embed(self.num_times, size, embedding_init=nn.initializers.zeros, name="advantage_at")(time)
            advantage = advantage + x @ kernel.reshape(self.width, self.num_actions)
        if not self.dueling:
            return advantage
        return nn.Dense(1, name="value", kernel_init=nn.initializers.zeros)(x) + advantage - jnp.mean(advantage)
