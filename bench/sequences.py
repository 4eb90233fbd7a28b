"""Is the frontier of a sequence world right, and its proof? Searched beside brute force: `python bench/sequences.py`.

Worlds of four symbols and four places, whose judge and agent are LSTMs of random weights, so that both have a memory.
Brute force grades all 256 sequences: v and the number of edits of each. `right` is the share of all numbers of edits at
which the search has the best v of at most as many edits; `proved` the share at which its limit is that very v. Habits
are charged as regret and paid as h(p), in turn.
"""

from __future__ import annotations

import argparse
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
from pprjax_envs import SequenceEnv
from pprjax_envs.lstm import LSTMClassifier, LSTMPolicy, Network
from rapidfuzz.distance import Levenshtein
from report import finish, table

import pprjax
from pprjax import Config
from pprjax.goals import class_is

SYMBOLS, LENGTH, WIDTH = 4, 4, 8
SHARPNESS = 3.0  # of the random weights: judges that are sure, agents that have favourites
ALL = np.array(list(itertools.product(range(SYMBOLS), repeat=LENGTH)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--worlds", type=int, default=20)
    arguments.add_argument("--originals", type=int, default=3, help="in each world")
    options = arguments.parse_args()
    rows = []
    for seed in range(options.worlds):
        rng = np.random.default_rng(seed)
        habit = ("regret", "link")[seed % 2]
        config = Config(lambda_policy=float(rng.choice([0.02, 0.3])), habit=habit)
        rows.append(compared(random_world(seed), ALL[rng.integers(0, len(ALL), options.originals)], config))
    figures = {
        "worlds": options.worlds,
        "numbers_of_edits": sum(row["points"] for row in rows),
        "right": float(np.mean([row["right"] for row in rows])),
        "proved": {
            habit: float(np.mean([row["proved"] for row in rows if row["habit"] == habit]))
            for habit in ("regret", "link")
        },
        "search_s": sum(row["search_s"] for row in rows),
        "brute_force_s": sum(row["brute_force_s"] for row in rows),
    }
    table("sequence worlds", rows)
    finish("sequences", figures)


def random_world(seed: int) -> pprjax.Task:
    keys = jax.random.split(jax.random.key(seed), 2)
    features = jnp.eye(SYMBOLS + 1)

    def weights(key: jax.Array, num_outputs: int):
        carry = jnp.zeros(WIDTH), jnp.zeros(WIDTH)
        return jax.tree.map(lambda x: SHARPNESS * x, Network(WIDTH, num_outputs).init(key, carry, features[0]))

    judge = LSTMClassifier(params=weights(keys[0], 2), features=features, width=WIDTH, num_classes=2)
    agent = LSTMPolicy(params=weights(keys[1], SYMBOLS + 1), features=features, width=WIDTH)
    return pprjax.Task(SequenceEnv(judge, 1, num_symbols=SYMBOLS, length=LENGTH), agent, goal=class_is(1))


def compared(task: pprjax.Task, originals: np.ndarray, config: Config) -> dict:
    """How often the search is right at a number of edits, and says so."""
    begun = time.perf_counter()
    front = pprjax.frontier(task, task.env.paths(originals), config, method="search")
    middle = time.perf_counter()
    expected = np.stack([brute_force(task, original, config) for original in originals])
    done = time.perf_counter()
    found = np.full(expected.shape, -np.inf)
    found[front.index, front.distance] = front.value
    found = np.maximum.accumulate(found, axis=1)
    limit = front.limit[:, : expected.shape[1]]
    return {
        "habit": config.habit,
        "lambda_policy": config.lambda_policy,
        "points": expected.size,
        "right": float(close(found, expected).mean()),
        "proved": float(close(limit, expected).mean()),
        "search_s": middle - begun,
        "brute_force_s": done - middle,
    }


def close(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.isclose(one, other, rtol=1e-4, atol=1e-4)


def brute_force(task: pprjax.Task, original: np.ndarray, config: Config) -> np.ndarray:
    """The best v of at most e edits, e = 0 … LENGTH, of all sequences that the judge takes for class 1."""
    judge, agent = task.params.classifier, task.policy

    @jax.jit
    @jax.vmap
    def graded(sequence):
        seen, carry, before, charged = judge.init(), agent.init(), jnp.int32(SYMBOLS), jnp.float32(0.0)
        for symbol in sequence:
            query, logits = agent.network.apply(agent.params, carry, agent.features[before])
            log_probs = jax.nn.log_softmax(agent.features[:-1] @ logits)
            paid = pprjax.link(jnp.exp(log_probs), SYMBOLS) if config.habit == "link" else log_probs - log_probs.max()
            carry, before, charged = query, symbol, charged + paid[symbol]
            seen = judge.step(seen, symbol)
        return jnp.exp(judge.log_probs(seen)[1]), charged

    prob, charged = map(np.asarray, graded(ALL))
    value = np.where(prob > 0.5, prob + config.lambda_policy * charged, -np.inf)
    edits = np.array([Levenshtein.distance(original.tolist(), sequence) for sequence in ALL.tolist()])
    return np.maximum.accumulate([value[edits == e].max(initial=-np.inf) for e in range(LENGTH + 1)])


if __name__ == "__main__":
    main()
