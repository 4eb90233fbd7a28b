"""A small game in place of the emulator: walk right, jump over a pit, take a coin in the air."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
from pprjax_envs.mario.emulator import Facts
from pprjax_envs.mario.fitted import Training
from pprjax_envs.mario.world import MarioEnv

PIT, FLAG, COINS = 96, 240, (64, 144)
START = (0, 0, 0, ())
GOAL_X, STEPS = 200, 14
BOTH_COINS = [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]  # and over the pit
NO_COINS = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]  # over the pit alone
TRAINING = Training(rounds=2, num_paths=8, warm=2, first_width=4, updates=300, batch_size=64)


class Hopper:
    """A state is (x, steps left in the air, coins taken as bits, the last actions). A step right is 16 pixels.

    Args:
        memory: how many of the last actions a state tells apart: 0 merges all that look alike.
        breaks_at: an x at which stepping raises.
        pictures: show a bright bar at his place.
    """

    num_actions, num_features, snapshot_bytes = 2, 20, 1000

    def __init__(self, memory: int = 0, breaks_at: int | None = None, pictures: bool = False):
        self.memory, self.breaks_at, self.pictures = memory, breaks_at, pictures
        self.played = 0
        self.start()

    def start(self):
        self.state = START

    def act(self, action):
        assert not self._done()
        if self.state[0] == self.breaks_at:
            raise BrokenPipeError(f"broken at {self.breaks_at}")
        self.played += 1
        x, air, coins, last = self.state
        air = 2 if air == 0 and action == 1 else max(air - 1, 0)
        x += 16
        taken = air > 0 and x in COINS
        coins |= taken << COINS.index(x) if x in COINS else 0
        self.state = (x, air, coins, (*last, action)[-self.memory :] if self.memory else ())
        dead = x == PIT and air == 0
        return 16.0 - 31.0 * dead, int(taken)

    def save(self):
        return self.state

    def restore(self, snapshot):
        self.state = snapshot

    def key(self):
        return hashlib.blake2b(repr(self.state).encode(), digest_size=16).digest()

    def facts(self):
        x, air, coins, last = self.state
        features = np.array([*np.eye(16)[x // 16], air / 2, coins & 1, coins >> 1, len(last)], np.float32)
        dead = x == PIT and air == 0
        frame = np.zeros((84, 84), np.uint8)
        frame[60 - 20 * air : 80 - 20 * air, x // 4 : x // 4 + 8] = 255
        return Facts(
            x=x, y=79 + 16 * air, dead=dead, cleared=x >= FLAG, done=self._done(), features=features,
            frame=frame if self.pictures else None,
        )  # fmt: skip

    def _done(self):
        x, air = self.state[:2]
        return x >= FLAG or (x == PIT and air == 0)


def simulate(game: Hopper, actions) -> list:
    """What the game itself gives: (x, coins taken, reward) after each action until it is done."""
    game.start()
    seen = []
    for action in actions:
        if game.facts().done:
            break
        reward, coins = game.act(action)
        seen.append((game.facts().x, coins, reward))
    return seen


def explored(**settings) -> MarioEnv:
    """The small game as Mario's world, every step of it taken."""
    env = MarioEnv(**{"game": Hopper} | settings)
    nodes = np.arange(len(env.explorer))
    while nodes.size:
        known = len(env.explorer)
        for action in range(env.num_actions):
            env.explorer.step(nodes, np.full(nodes.shape, action))
        nodes = np.arange(known, len(env.explorer))
    return env


def small(**settings):
    return {"game": Hopper, "goal_x": GOAL_X, "max_steps": STEPS} | settings


def world(**settings):
    return MarioEnv(**small(**settings))


@functools.cache
def all_plans():
    """The different ways to play, up to where they end."""
    ways, frontier = [], [()]
    game = Hopper()
    while frontier:
        plan = frontier.pop()
        game.start()
        for action in plan:
            game.act(action)
        if game.facts().done or game.facts().x > GOAL_X:
            ways.append(plan)
        else:
            frontier += [(*plan, 0), (*plan, 1)]
    return ways
