"""Where states are vectors: does the pole stand, does the car arrive? `python bench/continuous.py --picture pole.png`

On gymnax's own CartPole and MountainCar an agent is trained by the cross-entropy method, a linear function of what it
observes. Ten times it drives well at first, and then pushes to the right, whatever it sees, until the pole has fallen,
or the car's time is up. The recourse is what this agent would do instead, and stands, or arrives. `bound` comes of what
each world may still pay, and of the fewest steps to its goal.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import car
import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments.classic_control.cartpole import CartPole
from gymnax.environments.classic_control.mountain_car import MountainCar
from jaxtyping import Array, Float
from matplotlib import pyplot as plt
from report import finish, table

import pprjax

ORIGINALS = 10


@dataclasses.dataclass(frozen=True)
class Case:
    """A world, and how an original goes wrong in it."""

    env: Any
    scale: tuple[float, ...]  # of what it observes, which is the symbol as well
    well: int  # actions of an original before it pushes to the right
    horizon: int
    lambda_path: float
    reached: Callable[[Any, Any], Array]
    goal_to_go: Callable[[Any, Any], Array]
    steps_to_go: Callable[[Any, Any], Array]
    shown: int  # of the observation
    words: tuple[str, str]  # what is shown, and what a recourse does


POLE, CAR = CartPole(), MountainCar()
STANDS, ARRIVES = 45, 120  # actions


CASES = {
    "CartPole": Case(
        env=POLE,
        scale=(0.5, 1.0, 0.2, 1.0),
        well=15,
        horizon=STANDS,
        lambda_path=100.0,
        reached=lambda state, params: (state.time == STANDS) & ~POLE.is_terminated(state, params),
        goal_to_go=lambda state, params: 1.0 * (STANDS - state.time),
        steps_to_go=lambda state, params: STANDS - state.time,
        shown=2,
        words=("angle of the pole, in radians", "stands"),
    ),
    "MountainCar": Case(
        env=CAR,
        scale=(0.5, 0.05),
        well=40,
        horizon=ARRIVES,
        lambda_path=100.0,
        reached=CAR.is_terminated,
        goal_to_go=lambda state, params: -1.0 * car.steps_to_go(state, params),
        steps_to_go=car.steps_to_go,
        shown=0,
        words=("position of the car", "arrives"),
    ),
}


def linear(weights: Float[Array, "A k+1"], seen: Float[Array, " k"]) -> Float[Array, " A"]:
    """The logits of the agent."""
    return weights @ jnp.append(seen, 1.0)


@partial(jax.jit, static_argnames=("case", "generations", "population"))
def trained(case: Case, key: Array, generations: int = 15, population: int = 128) -> tuple[Array, Array]:
    """The weights after the cross-entropy method, and the mean return of the best of each generation, over 4 starts."""
    env, params = case.env, case.env.default_params
    unit = 1 / jnp.append(jnp.asarray(case.scale), 1.0)

    def earned(weights, key):
        def step(carry, _):
            state, over = carry
            action = jnp.argmax(linear(weights * unit, env.observe(key, state, None, params)))
            _, after, reward, ended, _ = env.step_env(key, state, action, params)
            return (after, over | ended), jnp.where(over, 0.0, reward)

        start = env.reset_env(key, params)[1]
        return jax.lax.scan(step, (start, jnp.bool_(False)), length=200)[1].sum()

    def generation(carry, key):
        mean, deviation = carry
        drawn = mean + deviation * jax.random.normal(key, (population, *mean.shape))
        starts = jax.random.split(jax.random.fold_in(key, 1), 4)
        returns = jax.vmap(lambda weights: jax.vmap(partial(earned, weights))(starts).mean())(drawn)
        best = drawn[jnp.argsort(-returns)[: population // 8]]
        return (best.mean(0), best.std(0) + 0.05), returns.max()

    nothing = jnp.zeros((env.num_actions, len(case.scale) + 1))
    (mean, _), curve = jax.lax.scan(generation, (nothing, jnp.ones_like(nothing)), jax.random.split(key, generations))
    return mean * unit, curve


def badly(case: Case, weights: Array, start: Any) -> tuple[np.ndarray, list[int]]:
    """The states and actions of one original."""
    env, params, key = case.env, case.env.default_params, jax.random.key(0)
    step, state = jax.jit(env.step_env), start
    states, actions = [env.observe(key, start, None, params)], []
    for t in range(case.horizon):
        right = case.env.num_actions - 1
        actions.append(int(jnp.argmax(linear(weights, states[-1]))) if t < case.well else right)
        _, state, _, ended, _ = step(key, state, actions[-1], params)
        states.append(env.observe(key, state, None, params))
        if ended:
            break
    return np.array(states), actions


def starts(case: Case, weights: Array) -> list[Any]:
    """The first starts from which pushing to the right goes wrong."""
    found, i = [], 0
    while len(found) < ORIGINALS:
        state = case.env.reset_env(jax.random.key(i), case.env.default_params)[1]
        states, actions = badly(case, weights, state)
        ended = len(actions) < case.horizon
        if ended == (case.env is POLE) and (case.env is POLE or states[-1][0] < CAR.default_params.goal_position):
            found.append(state)
        i += 1
    return found


def posed(case: Case, weights: Array) -> tuple[pprjax.Stack, pprjax.Paths, pprjax.Config]:
    """Ten originals, each with its own start, and what is asked."""
    states = starts(case, weights)
    originals = pprjax.Paths.from_lists(*zip(*(badly(case, weights, state) for state in states), strict=True))

    def symbol(state, params):
        return case.env.observe(jax.random.key(0), state, None, params)

    world: dict[str, Any] = dict(
        symbol=symbol,
        reached_goal=case.reached,
        goal_to_go=case.goal_to_go,
        steps_to_go=case.steps_to_go,
        deterministic=True,
    )
    policy = pprjax.ObservationPolicy(linear, weights, temperature=0.5)
    task = pprjax.Task(case.env, policy, goal=pprjax.reached, horizon=case.horizon, start=states[0], **world)
    config = pprjax.Config(distance="real", scale=case.scale, lambda_path=case.lambda_path, lambda_policy=1.0)
    return pprjax.stack([task.replace(start=state) for state in states]), originals, config


def answered(*question: Any, **options: Any) -> tuple[pprjax.Recourse, float]:
    """The recourses, and the seconds that each took, of a second run."""
    for _ in range(2):
        started = time.perf_counter()
        found = pprjax.recourse(*question, **options)
        took = time.perf_counter() - started
    return found, took / ORIGINALS


def draw(axes: Any, case: Case, name: str, originals: pprjax.Paths, found: pprjax.Recourse) -> None:
    """All originals, all recourses, and the first of both in full colour."""
    for paths, color, word in ((originals, "tab:red", "original"), (found.paths, "tab:blue", "recourse")):
        for i, path in enumerate(paths):
            faint = dict(alpha=0.25, linewidth=1) if i else dict(linewidth=2, label=word)
            axes.plot(np.array(path)[:, case.shown], color=color, **faint)
    axes.set(title=name, xlabel="step", ylabel=case.words[0])
    axes.legend(frameon=False)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=10_000)
    arguments.add_argument("--learn", action="store_true", help="the learner beside the search")
    arguments.add_argument("--picture", help="a file for originals and recourses over time")
    args = arguments.parse_args()
    figure, axes = plt.subplots(1, len(CASES), figsize=(11, 3.6), layout="constrained")
    rows, shown = {}, []
    for (name, case), ax in zip(CASES.items(), axes, strict=True):
        weights, curve = trained(case, jax.random.key(0))
        tasks, originals, config = posed(case, weights)
        found, seconds = answered(tasks, originals, config, method="search", calls=args.calls)
        draw(ax, case, name, originals, found)
        changed = [
            sum(a != b for a, b in zip(own, other, strict=False))
            for own, other in zip(originals.actions_to_lists(), found.paths.actions_to_lists(), strict=True)
        ]
        rows[name] = {
            "trained_return": float(curve[-1]),
            "met": float((found.status == "reached_goal").mean()),
            "distance": found.scores.distance.tolist(),
            "changed_actions": changed,
            "original_length": originals.lengths.tolist(),
            "length": found.paths.lengths.tolist(),
            "reward": found.reward.tolist(),
            "gap": found.gap.tolist(),
            "seconds_each": seconds,
        }
        if args.learn:
            options: dict[str, Any] = dict(method="learn", key=jax.random.key(0))
            learned, took = answered(tasks, originals, dataclasses.replace(config, edited_lanes=True), **options)
            rows[name] |= {
                "learned_met": float((learned.status == "reached_goal").mean()),
                "learned_reward": learned.reward.tolist(),
                "learned_seconds_each": took,
            }
        shown.append(
            {
                "world": name,
                case.words[1]: rows[name]["met"],
                "distance": float(found.scores.distance.mean()),
                "actions changed": float(np.mean(changed)),
                "R": float(found.reward.mean()),
                "gap": float(found.gap.mean()),
                "seconds": seconds,
                "R, learned": float(np.mean(rows[name].get("learned_reward", np.nan))),
            }
        )
        table(name, shown[-1:])
    if args.picture:
        figure.savefig(args.picture, dpi=110)
    finish("continuous", {"originals": ORIGINALS, "calls": args.calls, "worlds": rows})


if __name__ == "__main__":
    main()
