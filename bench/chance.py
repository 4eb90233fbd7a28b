"""What do large worlds of chance take: to be learned in, to be planned in by BL1, and with the noise of a path?

python bench/chance.py                        # both worlds, three uses each, every use in a process of its own
python bench/chance.py --world wide --use learn

* clinic: ICU-Sepsis, 716 states, 25 actions, up to 213 next states; needs the extra `icu`.
* wide: 5,000 states, 10 actions, 20 next states each, at random.

The learner trains one original with its default settings. BL1 plans one original of 20 steps, its noise exactly, for up
to three changes. "observed" makes the counterfactual world of one original and learns in it. Seconds count compilation.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import finish

import pprjax
from pprjax.baselines import action_changes, counterfactual_probabilities
from pprjax.successors import Successors

STEPS = 20


def wide(num_states: int = 5_000, num_actions: int = 10, width: int = 20, seed: int = 0) -> Successors:
    """Each step leads to so many states, one of each of as many parts of all."""
    rng = np.random.default_rng(seed)
    shape, part = (num_states, num_actions, width), num_states // width
    next_state = np.arange(width) * part + rng.integers(0, part, shape)
    state, action, _ = np.indices(shape).reshape(3, -1)
    probs = rng.dirichlet(np.ones(width), shape[:2])
    return Successors.from_steps(state, action, next_state.ravel(), probs.ravel())


def problem(name: str) -> tuple[pprjax.Task, pprjax.Paths]:
    """A task and an original, which takes its actions by P_A for 20 steps at most."""
    if name == "clinic":
        from pprjax_envs import clinic

        originals = next(p for p in (clinic.patients(1, seed=i) for i in range(99)) if np.max(p.lengths) > STEPS)
        return clinic.task(int(np.asarray(originals.symbols)[0, 0])), originals
    chances, rng = wide(), np.random.default_rng(1)
    num_states, num_actions = chances.shape
    reward = rng.normal(size=(num_states, num_actions))
    from pprjax import TabularMDP

    env = TabularMDP(reward=reward, terminal=np.arange(num_states) < 20, start=100, max_steps=STEPS, transition=chances)
    states, actions = [100], []
    while len(actions) < STEPS and states[-1] >= 20:
        actions.append(int(rng.integers(num_actions)))
        cell = chances.cell(states[-1], actions[-1])
        states.append(int(rng.choice(chances.states[chances.first[cell] : chances.first[cell + 1]])))
    policy = pprjax.TablePolicy(jnp.full((num_states, num_actions), 1 / num_actions))
    return pprjax.Task(env, policy, goal=pprjax.at_least(1.0)), pprjax.Paths.from_lists([states], [actions])


def used(name: str, use: str) -> dict[str, Any]:
    """Seconds and peak memory of one use, the second with all that Python and JAX take themselves."""
    task, original = problem(name)
    key, started = jax.random.key(0), time.perf_counter()
    if use == "bl1":
        found = action_changes(task, original, max_changes=3, key=key, num_samples=None)
        gained = {"gained": float(found.reward[0, -1] - found.reward[0, 0])}
    else:
        if use == "observed":
            chances = task.env.successors(task.params)
            padded = original.padded_to(task.horizon + 1)
            states, actions = np.asarray(padded.symbols)[0], np.asarray(padded.actions)[0]
            own = counterfactual_probabilities(chances, states, actions)
            task = task.replace(params=task.env.with_chances(task.params, own))
            del own
        found = pprjax.recourse(task, original, key=key, progress=False)
        gained = {"status": str(found.status[0]), "reliability": float(found.reliability[0])}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    stored = task.env.default_params.successors
    return {
        "shape": [*stored.shape, stored.longest],
        "numbers": len(stored.states),
        "seconds": time.perf_counter() - started,
        "peak_gib": peak,
        **gained,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--world", choices=("clinic", "wide"))
    arguments.add_argument("--use", choices=("learn", "bl1", "observed"))
    args = arguments.parse_args()
    if args.world and args.use:
        print(json.dumps(used(args.world, args.use)))
        return
    uses: dict[str, dict[str, Any]] = {}
    for world in [args.world] if args.world else ["clinic", "wide"]:
        for use in [args.use] if args.use else ["learn", "bl1", "observed"]:
            command = [sys.executable, __file__, "--world", world, "--use", use]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            uses.setdefault(world, {})[use] = json.loads(done.stdout.splitlines()[-1])
            print(world, use, uses[world][use], file=sys.stderr, flush=True)
    finish("chance", {"worlds": uses})


if __name__ == "__main__":
    main()
