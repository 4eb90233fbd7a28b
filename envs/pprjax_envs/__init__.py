"""The worlds of pprjax."""

from pprjax_envs import gridworld
from pprjax_envs.gridworld import GridWorld
from pprjax_envs.tabular import TabularMDP

__all__ = ["GridWorld", "TabularMDP", "gridworld"]
