"""A town of seven places, with originals in it, that recourse solves to the optimum in seconds."""

import jax
import numpy as np

from pprjax import TabularMDP
from pprjax.config import Config
from pprjax.constraints import Constraints
from pprjax.goals import reached
from pprjax.policy import TablePolicy
from pprjax.task import Task

KEY = jax.random.key(5)
# A ring road 0 1 2 3 4 with a shortcut from 1 to 3 and a hill 5 beside 2; 6 is home. Actions: on, across, home; the
# fourth is nowhere.
NEXT_STATE = np.array([[1, 5, -1], [2, 3, -1], [3, 5, -1], [4, 1, 6], [0, -1, 6], [2, 3, 0], [-1, -1, -1]])
NEXT_STATE = np.pad(NEXT_STATE, ((0, 0), (0, 1)), constant_values=-1)
REWARD = np.array([[0, -1, 0], [0.5, 0, 0], [0, 0, 0], [0, 0, 2], [-1, 0, 3], [1, 0, 0], [0, 0, 0]])
REWARD = np.pad(REWARD, ((0, 0), (0, 1)))
PROBS = np.where(NEXT_STATE >= 0, [0.6, 0.3, 0.1, 0], 0.0)
PROBS[6] = 1 / 4
ORIGINALS = [[0, 1, 2, 3, 1, 2, 3], [0, 5, 2, 5, 3], [0, 1, 3, 4, 0]]
CONFIG = Config(
    lambda_path=3.0, lambda_policy=0.3, iterations=20, num_paths=64, num_best=16, updates=2, batch_size=32, width=16
)


def ring(**rules):
    env = TabularMDP(NEXT_STATE, REWARD, np.arange(7) == 6, 0, 7)
    policy = TablePolicy(np.float32(PROBS / PROBS.sum(1, keepdims=True)))
    return Task(env, policy, goal=reached, constraints=Constraints(**rules) if rules else None)
