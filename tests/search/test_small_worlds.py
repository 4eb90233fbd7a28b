"""Small finite worlds say by themselves what may still come, so that a search proves its answer for any agent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from rapidfuzz.distance import Levenshtein

import pprjax
from pprjax import TabularMDP
from pprjax.search.to_come import most_to_come

S, A, T = 5, 3, 5


@struct.dataclass
class KeepsGoing:
    """An agent that remembers: it would rather do what it did last."""

    table: jax.Array  # float[S, A], logits
    next_state: jax.Array  # int32[S, A]

    def init(self):
        return jnp.int32(-1), jnp.int32(-1)

    def step(self, carry, state):
        before, last = carry
        took = jnp.argmax(self.next_state[before] == state.id)
        last = jnp.where(before < 0, last, took)
        logits = self.table[state.id] + 1.5 * (jnp.arange(A) == last)
        return (state.id, last), jax.nn.log_softmax(logits)


def random_world(seed):
    rng = np.random.default_rng(seed)
    next_state = np.stack([rng.permutation(S)[:A] for _ in range(S)])  # where an action leads tells which it was
    reward = rng.normal(size=(S, A)).round(1)
    env = TabularMDP(next_state, reward, np.arange(S) == S - 1, 0, T)
    agent = KeepsGoing(jnp.asarray(rng.normal(size=(S, A)), jnp.float32), jnp.asarray(next_state))
    original = [0]
    for _ in range(3):
        original.append(int(rng.choice([s for s in next_state[original[-1]] if s != S - 1])))
    return pprjax.Task(env, agent, goal=pprjax.reached), next_state, reward, original


def brute_force(task, next_state, reward, original, lambda_path):
    """The largest R of all paths that reach the end, by walking along every one."""
    best = -np.inf

    def walk(states, carry, earned, charged):
        nonlocal best
        here = states[-1]
        if here == S - 1:
            close = lambda_path / (Levenshtein.distance(original, states) + 1)
            best = max(best, earned + charged + close)
            return
        if len(states) > T:
            return
        carry, log_probs = task.policy.step(carry, task.env.state_from_id(here, task.params))
        for action, log_prob in enumerate(np.asarray(log_probs)):
            cost = float(log_prob - log_probs.max())
            walk([*states, int(next_state[here, action])], carry, earned + reward[here, action], charged + cost)

    with jax.disable_jit():
        walk([0], task.policy.init(), 0.0, 0.0)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_a_search_proves_its_answer_where_the_agent_remembers(seed):
    task, next_state, reward, original = random_world(seed)
    for lambda_path in (0.5, 5.0):
        config = pprjax.Config(lambda_path=lambda_path, lambda_policy=1.0)
        found = pprjax.recourse(task, pprjax.Paths.from_lists([original]), config)
        assert found.method.tolist() == ["search"] and found.gap.tolist() == [0.0]
        assert found.reward[0] == pytest.approx(brute_force(task, next_state, reward, original, lambda_path), abs=1e-4)


def test_the_most_that_may_come_is_the_most_of_all_walks():
    task, next_state, reward, _ = random_world(3)

    def most(state, steps):
        if state == S - 1 or steps == 0:
            return 0.0
        return max(0.0, *(r + most(s, steps - 1) for s, r in zip(next_state[state], reward[state], strict=True)))

    expected = [most(state, T) for state in range(S)]
    np.testing.assert_allclose(most_to_come(task)[: S - 1], expected[: S - 1], rtol=1e-5, atol=1e-5)
