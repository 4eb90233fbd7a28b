"""MarioEnv: Super Mario Bros. as a pure function; an emulator on the host plays what is new.

After the Mario experiment of Personalized Path Recourse (arXiv 2312.08724): always walking right ends in the first
enemy; how would a player who likes coins have got past, and how one who avoids them?

    env = mario.MarioEnv()
    task = mario.task(env, mario.agents.trained(env, "seeker")[0])
    found = pprjax.recourse(task, mario.always_right(env), mario.SETTINGS, method="learn", key=jax.random.key(0))
    env.check()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.goals import Goal, reached
from pprjax.paths import Paths
from pprjax.policy import Policy
from pprjax.quick_gymnax import environment, spaces
from pprjax.task import Task
from pprjax_envs.mario import table as mario_table
from pprjax_envs.mario.emulator import SIDE, STACK, Emulator, Game, NESEmulator, rom_hash
from pprjax_envs.mario.explorer import DONE, MEMORY, ROOT, Explorer, Step
from pprjax_envs.mario.settings import GOAL_X, steps_for
from pprjax_envs.mario.table import SYMBOLS, MarioTable, Play, as_play, symbol

VIEWS = ("features", "pixels")


@struct.dataclass
class MarioState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], actions taken
    node: jax.Array  # int32[], the explorer's number of this state of the game
    x: jax.Array  # int32[], pixels from the left end of the level
    y: jax.Array  # int32[], pixels above the bottom of the screen
    flags: jax.Array  # int32[], DEAD | CLEARED | DONE
    features: jax.Array  # float32[F], of the RAM


@struct.dataclass(kw_only=True)
class MarioParams(environment.EnvParams):
    goal_x: jax.Array | int = GOAL_X  # pixels
    coin_reward: jax.Array | float = 0.0  # earned for each coin on top


class MarioEnv(environment.Environment[MarioState, MarioParams]):
    """Super Mario Bros. from the start of a stage, with one life, until death, the flag, or alive beyond goal_x.

    A step holds the buttons of its action for some frames. Each frame pays clip(progress + time + death, -15, 15) as in
    `NESEmulator`, each coin `coin_reward` on top. A step is a pure function of (state, action): the game is
    deterministic, and an `Explorer` on the host remembers every step. What the host raises does not stop a rollout: the
    step's info has status 1, the path ends there, and `check` raises it.

    Args:
        game: the stage, the actions and the frames of a step; or a function that makes an emulator of another game.
        goal_x: pixels; a path ends where Mario is alive beyond it.
        max_steps: the largest number of actions of a path; default 14 and one for six pixels of goal_x.
        symbols: what the edit distance compares: "tile" column and height, the "column" alone, or the "pixel".
        view: what is observed: "features" of the RAM, or "pixels", the last three pictures of 84×84, grey, in [0, 1].
        num_emulators: threads that play what is not remembered.
        memory: bytes that snapshots of the game may take.
        table: a file that `save` wrote, of this very game: what is remembered from the start.

    Raises:
        ValueError: the emulator is not installed, an argument is none of those possible, or the table is of another
            game.
    """

    deterministic = True

    def __init__(
        self,
        game: Game | Callable[[], Emulator] = Game(),
        *,
        goal_x: int = GOAL_X,
        max_steps: int | None = None,
        symbols: str = "tile",
        view: str = "features",
        num_emulators: int = 2,
        memory: int = MEMORY,
        table: Any = None,
    ):
        for name, value, choices in (("symbols", symbols, SYMBOLS), ("view", view, VIEWS)):
            if value not in choices:
                raise UserError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
        max_steps = steps_for(goal_x) if max_steps is None else max_steps
        if max_steps < 1:
            raise UserError(f"max_steps: expected at least 1, got {max_steps}")
        self.symbols, self.view = symbols, view
        pictures = view == "pixels"
        if isinstance(game, Game):
            self.game = dataclasses.replace(game, actions=tuple(game.actions), pictures=pictures, rom=rom_hash())
            make = partial(NESEmulator, self.game)
        else:
            self.game, make = Game(pictures=pictures), game
        known = None if table is None else mario_table.load(table, self.game)[0]
        self.explorer = Explorer(make, num_emulators=num_emulators, memory=memory, known=known)
        self._params = MarioParams(max_steps_in_episode=max_steps, goal_x=goal_x)
        stay = self.explorer.step(np.array([ROOT]), np.array([-1]))
        self._root = jax.tree.map(lambda x: x[0], stay)
        if goal_x <= self._root.x:
            raise UserError(f"goal_x: expected more than the start's {self._root.x} pixels, got {goal_x}")
        self._shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), self._root)

    @property
    def default_params(self) -> MarioParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self.explorer.num_actions

    def reset_env(self, key: jax.Array, params: MarioParams) -> tuple[Array, MarioState]:
        state = _state(jnp.int32(0), jax.tree.map(jnp.asarray, self._root))
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: MarioState, action, params: MarioParams):
        """One transition. Where a path has ended every action stays where it is."""
        acts = jnp.where(_ended(state, params), -1, jnp.asarray(action, jnp.int32))
        step: Step = jax.pure_callback(self._step, self._shapes, state.node, acts, vmap_method="broadcast_all")
        after = _state(state.time + 1, step)
        failed = step.status != 0
        reward = step.reward + params.coin_reward * step.coins
        observation = self.observe(key, after, action, params)
        return observation, after, reward, _ended(after, params) | failed, {"status": step.status}

    def _step(self, node, action) -> Step:
        shape = np.shape(node)
        step = self.explorer.step(np.ravel(node), np.ravel(action))
        return jax.tree.map(lambda x: x.reshape(shape + x.shape[1:]), step)

    def observe(self, key: jax.Array, state: MarioState, action, params: MarioParams) -> Float[Array, "..."]:
        del key, action, params
        if self.view == "features":
            return state.features
        shape = jax.ShapeDtypeStruct((STACK, SIDE, SIDE), np.uint8)
        seen = jax.pure_callback(self._observations, shape, state.node, vmap_method="broadcast_all")
        return seen.astype(jnp.float32) / 255

    def _observations(self, node) -> np.ndarray:
        shape = np.shape(node)
        return self.explorer.observations(np.ravel(node)).reshape(*shape, STACK, SIDE, SIDE)

    def is_terminated(self, state: MarioState, params: MarioParams) -> Bool[Array, ""]:
        return _ended(state, params)

    def action_space(self, params: MarioParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: MarioParams | None = None) -> spaces.Box:
        del params
        if self.view == "pixels":
            return spaces.Box(0.0, 1.0, (STACK, SIDE, SIDE), jnp.float32)
        return spaces.Box(-jnp.inf, jnp.inf, (self.explorer.num_features,), jnp.float32)

    def symbol(self, state: MarioState, params: MarioParams) -> Int[Array, ""]:
        del params
        return symbol(state.x, state.y, self.symbols)

    def reached_goal(self, state: MarioState, params: MarioParams) -> Bool[Array, ""]:
        """Alive beyond goal_x, or at the flag."""
        return mario_table.reached(state, params.goal_x)

    def play(self, actions: Sequence[int]) -> Play:
        """These actions from the start on, beyond the goal too, until the game is done."""
        nodes, taken = [ROOT], []
        for action in actions:
            if self.explorer.step(np.array(nodes[-1:]), np.array([-1])).flags[0] & DONE:
                break
            nodes.append(int(self.explorer.step(np.array(nodes[-1:]), np.array([action])).node[0]))
            self.check()
            taken.append(int(action))
        return as_play(self.explorer.nodes, nodes, taken, self.symbols)

    def check(self) -> None:
        """Raise, once and with its own type, what an emulator raised since the last check."""
        self.explorer.check()

    def explored(self, *, coin_reward: float = 0.0, goal_x: int | None = None) -> MarioTable:
        """What was explored so far, as a world that needs no emulator.

        Args:
            coin_reward: as of `MarioParams`.
            goal_x: pixels; default the world's own. With another the largest number of steps is that of `steps_for`.
        """
        own = int(self._params.max_steps_in_episode)
        return MarioTable(
            self.explorer.nodes,
            goal_x=int(self._params.goal_x) if goal_x is None else goal_x,
            coin_reward=coin_reward,
            max_steps=own if goal_x is None else steps_for(goal_x),
            symbols=self.symbols,
        )

    def save(self, path: Any) -> None:
        """Write what was explored so far to a file, whole or not at all."""
        mario_table.save(self.explorer.nodes, self.game, path)

    def close(self) -> None:
        """Stop the emulators' threads."""
        self.explorer.close()


def _state(time: Array, step: Any) -> MarioState:
    return MarioState(time=time, node=step.node, x=step.x, y=step.y, flags=step.flags, features=step.features)


def _ended(state: MarioState, params: MarioParams) -> Bool[Array, ""]:
    return mario_table.reached(state, params.goal_x) | (state.flags & DONE > 0)


def always_right(env: MarioEnv | MarioTable) -> Paths:
    """The original: action 0 until the game is done, for max_steps at most."""
    return env.play([0] * int(env.default_params.max_steps_in_episode)).path


def task(env: MarioEnv | MarioTable, policy: Policy, *, goal: Goal | None = reached) -> Task:
    """Get past goal_x alive, as this agent would."""
    return Task(env, policy, goal=goal)
