"""Does PPR find better years than a beam search with as many classifier calls? `python bench/temperature.py`"""

import dataclasses
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from pprjax_envs import temperature
from pprjax_envs.temperature.experiment import outcomes, search
from pprjax_envs.temperature.settings import SEARCHED, SETTINGS
from report import finish, table

from pprjax import edit_distance
from pprjax.config import Config
from pprjax.reward import link, similarity, total

EVIDENCE_WEIGHTS = (0.0, 1.0, 3.0, 10.0)
"""What a beam adds to a prefix's reward for each unit of the wanted city's probability so far. All are run, each with a
quarter of the calls, and the best year found counts."""

LAMBDA_POLICY = (0.1, 0.3, 1.0)
REPEATS = 10  # of the beams, whose runs are short; PPR, which takes longer, is timed in its one run after compiling
TOLERANCE = 1e-4  # of R: below it two years are equally good


def main() -> None:
    data = temperature.split(temperature.simulate())
    models, _ = temperature.trained(data)
    # each path of a search costs L steps of the classifier: b an iteration, and b more and the greedy one at the end
    calls = len(SEARCHED) * (SETTINGS.num_paths * (SETTINGS.iterations + 1) + 1) * len(temperature.MONTHS)
    width = calls // (len(EVIDENCE_WEIGHTS) * data.scale.num_symbols * len(temperature.MONTHS))
    rows = [
        compare(data, models, SETTINGS.replace(lambda_policy=lambda_policy), wanted, width)
        for lambda_policy in LAMBDA_POLICY
        for wanted in (1, 0)
    ]
    table(f"{calls:,} classifier steps a year each; beams of width {width}; simulated years", rows)
    finish(
        "temperature",
        {
            "classifier_steps": calls,
            "beam_width": width,
            "cases": rows,
            "share_at_least_beam": float(np.mean([row["at_least_beam"] for row in rows])),
            "config": dataclasses.asdict(SETTINGS),
        },
    )


def compare(data: temperature.Data, models: temperature.Models, config: Config, wanted: int, width: int) -> dict:
    """PPR and the beams on all test years of one city."""
    task = temperature.task(data, models, wanted)
    originals = task.env.paths(data.test_symbols[data.test_labels != wanted])

    def all_beams():
        runs = [
            beams(task, originals.symbols, originals.lengths, config, evidence, width=width)
            for evidence in EVIDENCE_WEIGHTS
        ]
        return np.max(runs, 0)

    if wanted == 1 and config.lambda_policy == LAMBDA_POLICY[0]:
        search(task, originals, config, key=jax.random.key(1))  # compiles for all cases
    begin = time.perf_counter()
    found = outcomes(task, originals, search(task, originals, config, key=jax.random.key(0)), config)
    ppr_s = time.perf_counter() - begin
    best, times = all_beams(), []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        all_beams()
        times.append(time.perf_counter() - begin)
    short = np.maximum(best - found["reward"].to_numpy(), 0.0)
    return {
        "direction": f"{data.cities[1 - wanted]} → {data.cities[wanted]}",
        "λ_path": config.lambda_path,
        "λ_policy": config.lambda_policy,
        "R_ppr": found["reward"].mean(),
        "R_beam": float(best.mean()),
        "at_least_beam": float(np.mean(short <= TOLERANCE)),
        "mean_shortfall": float(short.mean()),
        "largest_shortfall": float(short.max()),
        "flipped": found["flipped"].mean(),
        "ppr_s": ppr_s,
        "beam_s": float(np.median(times)),
    }


@partial(jax.jit, static_argnames="width")
def beams(task, originals, lengths, config, evidence, *, width: int):
    """R of the best year of each original, float[B]."""
    search = partial(beam_search, task, config=config, width=width, evidence=evidence)
    return jax.lax.map(lambda x: search(*x)[0], (originals, lengths))


def beam_search(task, original, length, config, *, width: int, evidence):
    """The best complete sequence that meets the goal, of `width` prefixes kept at each step.

    A prefix is worth λ_policy·R_policy + λ_path / (m + 1), m the fewest edits with which a path that goes on from it
    can end, and `evidence` times the probability of the wanted class so far. A child costs one step of the classifier.

    Returns:
        R and the symbols; R is -inf where no sequence that was kept meets the goal.
    """
    actions = jnp.arange(task.num_actions)
    key = jax.random.key(0)
    state = task.reset(key)
    costs = config.costs
    match = edit_distance.matches(original, task.symbol(state), costs)
    column = edit_distance.append(edit_distance.start(original, costs), match, costs)
    root = (state, task.policy.init(), column, jnp.float32(0.0), jnp.full(task.horizon, -1, jnp.int32))
    nodes = jax.tree.map(lambda x: jnp.broadcast_to(x, (width, *jnp.shape(x))), root)
    alive = jnp.arange(width) == 0

    def children(node):
        state, carry, column, habits, symbols = node
        carry, log_probs = task.log_probs(carry, state)

        def child(action):
            following, _, _ = task.step(key, state, action)
            match = edit_distance.matches(original, task.symbol(following), costs)
            grown = edit_distance.append(column, match, costs)
            more = habits + link(jnp.exp(log_probs[action]), task.num_actions)
            return following, carry, grown, more, symbols.at[state.time].set(action)

        return jax.vmap(child)(actions)

    def worth(node):
        state, _, column, habits, _ = node
        smallest, _ = edit_distance.alignment(column, original, length, costs)
        running = state.class_probs[task.params.wanted]
        return config.lambda_policy * habits + config.lambda_path * similarity(smallest) + evidence * running

    def final(node):
        state, _, column, habits, _ = node
        goal = state.class_probs[task.params.wanted]
        lambdas = {"lambda_path": config.lambda_path, "lambda_policy": config.lambda_policy}
        reward = total(goal, similarity(edit_distance.distance(column, length, costs)), habits, **lambdas)
        return jnp.where(goal > 0.5, reward, -jnp.inf)

    for step in range(task.horizon):
        grown = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), jax.vmap(children)(nodes))
        value = jax.vmap(final if step + 1 == task.horizon else worth)(grown)
        value = jnp.where(jnp.repeat(alive, task.num_actions), value, -jnp.inf)
        best, at = jax.lax.top_k(value, width)
        nodes, alive = jax.tree.map(partial(jnp.take, indices=at, axis=0), grown), best > -jnp.inf
    return best[0], nodes[-1][0]


if __name__ == "__main__":
    main()
