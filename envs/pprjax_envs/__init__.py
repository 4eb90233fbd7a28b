"""The worlds of pprjax."""

from pprjax_envs.tabular import TabularMDP

__all__ = ["TabularMDP"]
