"""Does PPR find better years than plain beam searches? `python bench/temperature.py`

Four beams together have as many steps of the classifier as the learner; the search has its default, a tenth of that.
The habit is "link", under which nothing can be proved, and an edit replaces a month.
"""

import dataclasses
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from pprjax_envs import temperature
from pprjax_envs.temperature.settings import SETTINGS
from report import finish, table

from pprjax import edit_distance, recourse
from pprjax.config import Config
from pprjax.ladder import Wanted
from pprjax.paths import Paths
from pprjax.reward import link, similarity, total
from pprjax.search.points import search_points
from pprjax.solve import CALLS
from pprjax.task import Task

EVIDENCE_WEIGHTS = (0.0, 1.0, 3.0, 10.0)
"""What a beam adds to a prefix's reward for each unit of the wanted city's probability so far. All are run, each with a
quarter of the calls, and the best year found counts."""

LAMBDA_POLICY = (0.1, 0.3, 1.0)
CONFIG = SETTINGS.replace(habit="link", iterations=600)
REPEATS = 10  # of the beams, whose runs are short; what takes longer is timed in its one run after compiling
TOLERANCE = 1e-4  # of R: below it two years are equally good


def main() -> None:
    data = temperature.split(temperature.simulate())
    models, _ = temperature.trained(data)
    # each path of the learner costs L steps: b an iteration, and b more and the greedy one at the end
    calls = (CONFIG.num_paths * (CONFIG.iterations + 1) + 1) * len(temperature.MONTHS)
    rows = [
        compare(data, models, CONFIG.replace(lambda_policy=lambda_policy), wanted, calls)
        for lambda_policy in LAMBDA_POLICY
        for wanted in (1, 0)
    ]
    title = (
        f"{calls:,} classifier steps a year for the beams and the learner, {CALLS:,} for the search; simulated years"
    )
    table(title, rows)
    finish(
        "temperature",
        {
            "classifier_steps": calls,
            "search_steps": max(row["search_calls"] for row in rows),
            "cases": rows,
            "share_at_least_beam": float(np.mean([row["at_least_beam"] for row in rows])),
            "largest_shortfall": max(row["largest_shortfall"] for row in rows),
            "config": dataclasses.asdict(CONFIG),
        },
    )


def compare(data: temperature.Data, models: temperature.Models, config: Config, wanted: int, calls: int) -> dict:
    """The search, the learner and the beams on all test years of one city."""
    task = temperature.task(data, models, wanted)
    originals = task.env.paths(data.test_symbols[data.test_labels != wanted])
    width = calls // (len(EVIDENCE_WEIGHTS) * task.num_actions * task.horizon)

    def all_beams():
        runs = [
            beams(task, originals.symbols, originals.lengths, config, evidence, width=width)
            for evidence in EVIDENCE_WEIGHTS
        ]
        return np.max(runs, 0)

    if wanted == 1 and config.lambda_policy == LAMBDA_POLICY[0]:  # compiles for all cases
        searched(task, originals, config)
        learned(task, originals, config, jax.random.key(1))
    begin = time.perf_counter()
    reward, most = searched(task, originals, config)
    search_s = time.perf_counter() - begin
    begin = time.perf_counter()
    by_learner = learned(task, originals, config, jax.random.key(0))
    learned_s = time.perf_counter() - begin
    best, times = all_beams(), []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        all_beams()
        times.append(time.perf_counter() - begin)
    short, learned_short = (np.maximum(best - found, 0.0) for found in (reward, by_learner))
    return {
        "direction": f"{data.cities[1 - wanted]} → {data.cities[wanted]}",
        "λ_path": config.lambda_path,
        "λ_policy": config.lambda_policy,
        "R_search": float(reward.mean()),
        "R_learned": float(by_learner.mean()),
        "R_beam": float(best.mean()),
        "at_least_beam": float(np.mean(short <= TOLERANCE)),
        "better_than_beam": float(np.mean(reward > best + TOLERANCE)),
        "largest_shortfall": float(short.max()),
        "learned_at_least_beam": float(np.mean(learned_short <= TOLERANCE)),
        "learned_mean_shortfall": float(learned_short.mean()),
        "search_calls": most,
        "search_s": search_s,
        "learned_s": learned_s,
        "beam_s": float(np.median(times)),
    }


def searched(task: Task, originals: Paths, config: Config) -> tuple[np.ndarray, int]:
    """R of the best year that the search finds for each original, and the most steps that one took."""
    num_distances = task.horizon + 1
    wanted = Wanted(num_distances=num_distances)
    found = search_points(task, originals, config.objective, wanted=wanted, calls=CALLS)
    close = config.lambda_path * np.asarray(similarity(np.arange(num_distances)))
    return (np.asarray(found.best.value) + close).max(1), int(found.calls.max())


def learned(task: Task, originals: Paths, config: Config, key: jax.Array) -> np.ndarray:
    """R of the best year that the learner finds for each original; -inf where it misses the goal."""
    found = recourse(task, originals, config, method="learn", key=key)
    return np.where(found.scores.goal > 0.5, found.reward, -np.inf)


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
    costs = config.objective.costs
    match = edit_distance.matches(original, task.symbol(state), costs)
    column = edit_distance.append(edit_distance.start(original, costs), match, costs)
    root = (state, task.policy.init(), column, jnp.float32(0.0), jnp.full(task.horizon, -1, jnp.int32))
    nodes = jax.tree.map(lambda x: jnp.broadcast_to(x, (width, *jnp.shape(x))), root)
    alive = jnp.arange(width) == 0

    def children(node):
        state, carry, column, habits, symbols = node
        carry, log_probs = task.log_probs(carry, state)

        def child(action):
            next_state, _, _ = task.step(key, state, action)
            match = edit_distance.matches(original, task.symbol(next_state), costs)
            grown = edit_distance.append(column, match, costs)
            more = habits + link(jnp.exp(log_probs[action]), task.num_actions)
            return next_state, carry, grown, more, symbols.at[state.time].set(action)

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
        best, rows = jax.lax.top_k(value, width)
        nodes, alive = jax.tree.map(partial(jnp.take, indices=rows, axis=0), grown), best > -jnp.inf
    return best[0], nodes[-1][0]


if __name__ == "__main__":
    main()
