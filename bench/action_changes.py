"""How much faster is BL1 than the loops of the published program? `python bench/action_changes.py`

The loops are written here in NumPy, as the published program goes: one sample, one state and one action at a time. One
step of their sampling is timed and multiplied by the number of steps, which are all alike; their dynamic programme runs
whole.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import report

from pprjax.baselines import action_change_values, counterfactual_probabilities

NUM_STATES, NUM_ACTIONS, NUM_STEPS, MAX_CHANGES, NUM_SAMPLES = 20, 10, 20, 20, 1000
ROUNDS, CALLS = 10, 10  # rounds in turn, and calls a round of what takes milliseconds
TARGET = 100.0  # times faster than the published program


def main() -> None:
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.full(NUM_STATES, 0.5), (NUM_ACTIONS, NUM_STATES))
    reward = rng.normal(size=(NUM_ACTIONS, NUM_STATES))
    actions = rng.integers(0, NUM_ACTIONS, NUM_STEPS)
    states = [0]
    for action in actions:
        states.append(int(rng.choice(NUM_STATES, p=transition[action, states[-1]])))

    world = jnp.asarray(transition, jnp.float32), jnp.asarray(states), jnp.asarray(actions)
    first_exact, exact = timed(lambda: counterfactual_probabilities(*world))
    rewards, probs, key = jnp.asarray(reward, jnp.float32), np.asarray(exact, float), jax.random.key(0)
    runs = {
        "P_cf, loops": lambda: loop_step(transition, states[0], actions[0], states[1], rng),
        "P_cf, sampled": lambda: counterfactual_probabilities(*world, num_samples=NUM_SAMPLES, key=key),
        "P_cf, exact": lambda: counterfactual_probabilities(*world),
        "values, loops": lambda: loop_values(probs, reward, actions, states[0]),
        "values": lambda: action_change_values(exact, rewards, world[2], states[0], MAX_CHANGES),
    }
    first, results, times = {}, {}, {name: [] for name in runs}
    for name, run in runs.items():
        first[name], results[name] = timed(run)
    first["P_cf, exact"] = first_exact
    for _ in range(ROUNDS):  # in turn, so that a busy moment does not fall on one of them
        for name, run in runs.items():
            times[name] += [timed(run)[0] for _ in range(1 if "loops" in name else CALLS)]
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    seconds["P_cf, loops"] *= NUM_STEPS
    ratios = {name: seconds[f"{name.split(',')[0]}, loops"] / seconds[name] for name in runs if "loops" not in name}

    report.table(
        f"BL1: {NUM_STATES} states, {NUM_ACTIONS} actions, {NUM_STEPS} steps (P_cf, loops: one of them, times "
        f"{NUM_STEPS}), {NUM_SAMPLES} samples, up to {MAX_CHANGES} changes; medians",
        [
            {
                "program": name,
                "ms": 1e3 * seconds[name],
                "times faster": ratios.get(name, 1.0),
                "first call, s": first[name],
            }
            for name in runs
        ],
    )
    report.finish(
        "action_changes",
        {
            "seconds": seconds,
            "first_call_s": {name: first[name] for name in ratios},
            "ratios": ratios,
            "ratio_to_target": min(ratios.values()) / TARGET,
            "extrapolated": {"P_cf, loops": f"1 of {NUM_STEPS} steps timed"},
            "largest_difference": {
                "values from loops": float(np.abs(results["values"] - results["values, loops"]).max()),
                "exact P_cf from loops": float(np.abs(exact[0] - results["P_cf, loops"]).max()),
                "exact P_cf from sampled": float(np.abs(exact - results["P_cf, sampled"]).max()),
            },
        },
    )


def timed(run):
    """Seconds of one call, and its result."""
    begin = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - begin, result


def loop_step(transition, state, action, next_state, rng):
    """P_cf[a, s, s'] of one step: for each sample a truncated Gumbel a state, then an argmax for each a and s."""
    with np.errstate(divide="ignore"):
        logits = np.log(transition)
    counts = np.zeros(transition.shape)
    for _ in range(NUM_SAMPLES):
        noise = np.empty(NUM_STATES)
        top = rng.gumbel()
        for i in range(NUM_STATES):
            location = logits[action, state, i]
            cut = top if i == next_state else -np.log(np.exp(-rng.gumbel(location)) + np.exp(-top))
            noise[i] = cut - location
        for a in range(NUM_ACTIONS):
            for s in range(NUM_STATES):
                counts[a, s, np.argmax(logits[a, s] + noise)] += 1
    return counts / NUM_SAMPLES


def loop_values(probs, reward, actions, start):
    """v(start, 0, k), by a loop over steps, changes left, states and actions."""
    value = np.zeros((NUM_STATES, MAX_CHANGES + 1))
    for t in reversed(range(NUM_STEPS)):
        after, value = value, np.full(value.shape, -np.inf)
        for k in range(MAX_CHANGES + 1):
            for s in range(NUM_STATES):
                for a in range(NUM_ACTIONS):
                    left = k - int(a != actions[t])
                    if left >= 0:
                        value[s, k] = max(value[s, k], reward[a, s] + probs[t, a, s] @ after[:, left])
    return value[start]


if __name__ == "__main__":
    main()
