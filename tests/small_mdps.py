"""Small random worlds, and every plan in them."""

import itertools

import jax.numpy as jnp
import numpy as np

from pprjax import TabularMDP
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.task import Task

S, A, T, K = 4, 3, 4, 3  # small enough to try every plan


def random_transition(rng, *, gaps=True):
    """P[a, s, s'], with impossible transitions and unavailable actions."""
    probs = rng.dirichlet(np.full(S, 0.7), (A, S))
    if gaps:
        probs *= rng.random((A, S, S)) < 0.7
        probs[rng.random((A, S)) < 0.2] = 0.0
    sums = probs.sum(-1, keepdims=True)
    return np.divide(probs, sums, out=np.zeros_like(probs), where=sums > 1e-3)


class Mdp:
    """A small random deterministic world with walks through it."""

    def __init__(self, seed, num_originals=3):
        rng = np.random.default_rng(seed)
        self.next_state = rng.integers(0, S, (S, A))
        self.next_state[rng.random((S, A)) < 0.25] = -1  # dead ends included
        self.reward = rng.integers(-3, 4, (S, A)) / 2
        self.terminal = rng.random(S) < 0.3
        self.terminal[0] = False
        self.symbols = rng.integers(3, 6, S)  # some states look the same
        self.states, self.actions = [], []
        for _ in range(num_originals):
            states, actions = [0], []
            while len(actions) < T and not self.stops(states[-1]):
                actions.append(int(rng.choice(np.flatnonzero(self.next_state[states[-1]] >= 0))))
                states.append(int(self.next_state[states[-1], actions[-1]]))
            self.states.append(states)
            self.actions.append(actions)

    def stops(self, state):
        return self.terminal[state] or np.all(self.next_state[state] < 0)

    def task(self):
        env = TabularMDP(self.next_state, self.reward, self.terminal, 0, T, self.symbols)
        return Task(env, TablePolicy(jnp.full((S, A), 1 / A)))

    def originals(self):
        return Paths.from_lists([[int(self.symbols[s]) for s in states] for states in self.states], self.actions)

    def earned(self, actions):
        """R_goal and symbols of a plan, None if it meets an action that is not available."""
        state, total, symbols = 0, 0.0, [int(self.symbols[0])]
        for action in actions:
            if self.stops(state):
                break
            if self.next_state[state, action] < 0:
                return None
            total += self.reward[state, action]
            state = self.next_state[state, action]
            symbols.append(int(self.symbols[state]))
        return total, symbols

    def best(self, observed):
        """For each k the best R_goal of all plans with at most k changes."""
        values = np.full(K + 1, -np.inf)
        for plan in itertools.product(range(A), repeat=len(observed)):
            result = self.earned(plan)
            if result is not None:
                changes = sum(a != b for a, b in zip(plan, observed, strict=True))
                values[changes:] = np.maximum(values[changes:], result[0])
        return values
