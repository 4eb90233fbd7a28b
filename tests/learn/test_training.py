"""What a run of Algorithm 1 makes of its parts: replay weights, and the paths that are sampled when it is trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ring_road import CONFIG, KEY, ORIGINALS, ring

from pprjax.learn import learner, replay
from pprjax.learn.batches import learn
from pprjax.learn.replay import Tuples
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.rollout import trace

SMALL = CONFIG.replace(
    iterations=1, num_paths=2, num_best=1, updates=1, batch_size=4, width=4, memory=1, mixed_replay=False
)


@pytest.fixture
def loss(monkeypatch):
    """The loss of an update as a function of the weights of the four tuples that it replays."""
    task, symbols = ring(), jnp.asarray(ORIGINALS[0])
    task = task.replace(policy=TablePolicy(jnp.asarray(task.policy.probs)))
    original = jax.jit(trace)(task, symbols, jnp.int32(len(symbols)), KEY)
    state = jax.jit(learner.init)(task, original, SMALL, KEY).replace(scale=jnp.float32(1.0))

    @jax.jit
    def of(weight):
        tuples = Tuples(
            observation_tm1=jnp.array([0, 1, 2, 3]), position_tm1=jnp.arange(4), time_tm1=jnp.arange(4),
            action_tm1=jnp.array([0, 1, 0, 2]), reward_t=jnp.array([0.3, -1.0, 2.0, 0.5]), return_t=jnp.ones(4),
            observation_t=jnp.array([1, 3, 3, 6]), position_t=jnp.arange(1, 5), available_t=jnp.ones((4, 4), bool),
            to_go=jnp.array([3, 2, 1, 0]), missed=jnp.zeros(4, bool), weight=weight, place=jnp.arange(4),
        )  # fmt: skip
        monkeypatch.setattr(replay, "sample", lambda *args: tuples)
        return learner._update(task, original, SMALL, state, jnp.zeros(4))[1]

    return lambda weight: float(of(jnp.asarray(weight)))


def test_a_tuple_counts_as_much_as_replay_says(loss):
    first, rest = loss([1.0, 0.0, 0.0, 0.0]), loss([0.0, 1.0, 1.0, 1.0])
    assert first > 0 and rest > 0
    assert loss([1.0, 1.0, 1.0, 1.0]) == pytest.approx(first + rest)
    assert loss([3.0, 0.5, 0.5, 0.5]) == pytest.approx(3 * first + 0.5 * rest)
    assert loss([0.0, 0.0, 0.0, 0.0]) == 0


def test_a_path_of_the_trained_q_may_be_the_best():
    """After one iteration of two paths the last ones, sampled when it is trained, are better for some originals."""
    found = learn(ring(), Paths.from_lists(ORIGINALS * 4), SMALL, key=jax.random.key(2), progress=False)
    assert (found.reward >= found.greedy_reward).all()
    assert np.count_nonzero(found.reward > found.curve[:, -1] + 1e-6) >= 2


def test_the_harvest_is_the_best_of_its_paths_and_has_no_bonus():
    """Iteration `config.iterations`: the greedy path is the last lane, and nothing is learned."""
    task, symbols = ring(), jnp.asarray(ORIGINALS[0])
    task = task.replace(policy=TablePolicy(jnp.asarray(task.policy.probs)))
    original = jax.jit(trace)(task, symbols, jnp.int32(len(symbols)), KEY)
    keys = jax.random.split(KEY)
    state = jax.jit(learner.init)(task, original, SMALL, KEY)
    train = jax.jit(learner.train)
    before = train(task, original, SMALL, state, keys, 0, SMALL.iterations)
    after = train(task, original, SMALL, before, keys, SMALL.iterations, SMALL.iterations + 1)
    lanes = jax.jit(learner.explore)(task, original, SMALL, before, SMALL.iterations, keys[1])
    jax.tree.map(np.testing.assert_array_equal, after.greedy, jax.tree.map(lambda x: x[-1], lanes))
    found = [before.best, *(jax.tree.map(lambda x, i=i: x[i], lanes) for i in range(SMALL.num_paths + 1))]
    best = max(found, key=lambda path: (bool(path.met), float(path.reward)))
    assert (after.best.met, after.best.reward) == (best.met, best.reward)
    for name in ("params", "counts", "curve", "scale"):
        jax.tree.map(np.testing.assert_array_equal, getattr(before, name), getattr(after, name))
