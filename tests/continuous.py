"""A small world whose states are vectors, every path through it, and distances between paths by their definition."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment

import pprjax

HORIZON, SCALE = 5, (0.5, 0.4)


@struct.dataclass
class State(environment.EnvState):
    time: jax.Array
    place: jax.Array
    speed: jax.Array


@struct.dataclass
class Params(environment.EnvParams):
    max_steps_in_episode: int = HORIZON
    push: float = 0.25
    drag: float = 0.8
    broken: float = 10.0  # where the track ends, and what is beyond it is no number


class Sledge(environment.Environment):
    """Pushed back, let go, or pushed on. Each push costs; beyond 1 it has arrived, which pays."""

    num_actions, deterministic = 3, True

    @property
    def default_params(self):
        return Params()

    def reset_env(self, key, params):
        state = State(time=jnp.int32(0), place=jnp.float32(0.0), speed=jnp.float32(0.0))
        return self.observe(key, state, None, params), state

    def step_env(self, key, state, action, params):
        speed = params.drag * state.speed + params.push * (action - 1)
        place = state.place + speed
        after = State(time=state.time + 1, place=jnp.where(place > params.broken, jnp.nan, place), speed=speed)
        arrived = place > 1
        return self.observe(key, after, action, params), after, 1.0 * arrived - 0.1 * (action != 1), arrived, {}

    def observe(self, key, state, action, params):
        return jnp.stack([state.place, state.speed])

    def symbol(self, state, params):
        return jnp.stack([state.place, state.speed])


def at_most(state, params):
    """What may still be earned: the arrival."""
    return 1.0


SLEDGE = Sledge()


def lazy(weight, seen):
    """Logits of an agent that pushes on where it is slow, and lets go where it is fast."""
    return weight * jnp.stack([-1.0 - seen[1], 2 * seen[1], 0.5 - seen[0]])


def task(push=0.25, weight=1.5, **options):
    """Arrive."""
    policy = pprjax.ObservationPolicy(lazy, jnp.float32(weight))
    return pprjax.Task(
        SLEDGE, **dict(policy=policy, goal=pprjax.reached, params=Params(push=push), goal_to_go=at_most) | options
    )


def originals():
    """One that starts and stops, one that goes back, one that arrives, and one that the world can't follow."""
    rows = [[2, 1, 0, 1, 1], [0, 1, 2], [2, 2, 1]]
    return pprjax.Paths.from_lists([*[walk(row)[0] for row in rows], [[0.0, 0.0], [0.3, 0.2], [0.9, 0.9], [0.2, 0.0]]])


def walk(actions, push=0.25, drag=0.8):
    """The states of these actions, float[n, 2], and after how many it has arrived, in float32 as the world counts."""
    place = speed = np.float32(0)
    states = [(place, speed)]
    for t, action in enumerate(actions):
        speed = np.float32(drag) * speed + np.float32(push) * np.float32(action - 1)
        place = place + speed
        states.append((place, speed))
        if place > 1:
            return np.array(states, np.float32), t + 1
    return np.array(states, np.float32), None


def replaced(x, y, scale=SCALE):
    """What it costs to put y in the place of x."""
    return min(1.0, float(np.sqrt((((np.asarray(x, float) - np.asarray(y, float)) / scale) ** 2).sum())))


def real_table(original, path, scale=SCALE):
    """D[i, t] by its definition."""
    d = np.zeros((len(original) + 1, len(path) + 1))
    d[:, 0], d[0] = np.arange(len(original) + 1), np.arange(len(path) + 1)
    for i, t in itertools.product(range(1, len(original) + 1), range(1, len(path) + 1)):
        d[i, t] = min(d[i - 1, t] + 1, d[i, t - 1] + 1, d[i - 1, t - 1] + replaced(original[i - 1], path[t - 1], scale))
    return d


def warped(original, path, scale=SCALE):
    """Dynamic time warping by its definition."""
    d = np.full((len(original) + 1, len(path) + 1), np.inf)
    d[0, 0] = 0.0
    for i, t in itertools.product(range(1, len(original) + 1), range(1, len(path) + 1)):
        apart = np.linalg.norm((np.asarray(original[i - 1]) - path[t - 1]) / scale)
        d[i, t] = apart + min(d[i - 1, t], d[i, t - 1], d[i - 1, t - 1])
    return d[-1, -1]


@functools.lru_cache
def every_path(push, weight):
    """(states, actions, R_goal, R_policy) of all paths that arrive, in float64."""
    found = {}
    for actions in itertools.product(range(3), repeat=HORIZON):
        states, arrived = walk(actions, push)
        if arrived is None or actions[:arrived] in found:
            continue
        taken = actions[:arrived]
        seen = states[:-1].astype(float)
        logits = weight * np.stack([-1.0 - seen[:, 1], 2 * seen[:, 1], 0.5 - seen[:, 0]], axis=1)
        habit = (logits[np.arange(arrived), taken] - logits.max(1)).sum()
        found[taken] = (states, taken, 1.0 - 0.1 * sum(a != 1 for a in taken), habit)
    return list(found.values())


def best_by_bin(original, push, weight, lambda_policy, num_bins, scale=SCALE):
    """F(e): the largest v of paths that arrive with e ≤ d < e + 1; -inf where there is none. float[num_bins]"""
    best = np.full(num_bins, -np.inf)
    for states, _, goal, habit in every_path(push, weight):
        e = int(real_table(original, states, scale)[-1, -1])
        if e < num_bins:
            best[e] = max(best[e], goal + lambda_policy * habit)
    return best


def best_reward(original, push, weight, lambda_path, lambda_policy, scale=SCALE):
    """The largest R of the paths that arrive."""
    return max(
        goal + lambda_policy * habit + lambda_path / (1 + real_table(original, states, scale)[-1, -1])
        for states, _, goal, habit in every_path(push, weight)
    )
