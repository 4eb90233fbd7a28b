"""A year of monthly mean temperatures that should pass for another city's.

As in section 4.3 of Personalized Path Recourse (arXiv 2312.08724), an LSTM that writes years is the agent, and an LSTM
that tells two cities apart is the goal. A year of one city is edited until it is taken for the other's.

    data = temperature.split(temperature.simulate(40), seed=0)
    models = temperature.train(data)
    task = temperature.task(data, models, wanted=1)
    originals = task.env.paths(data.test_symbols[data.test_labels == 0])
"""

from __future__ import annotations

from typing import Any

from pprjax.goals import Goal, class_is
from pprjax.task import Task
from pprjax_envs.sequence import SequenceEnv
from pprjax_envs.temperature.agents import Models
from pprjax_envs.temperature.years import MONTHS, Data


def task(data: Data, models: Models, wanted: int, *, goal: Goal | str | None = "class") -> Task:
    """Edit years so that they pass for those of city `wanted`. A symbol is one of the scale's temperatures, see `Data`.

    Args:
        wanted: 0 or 1.
        goal: by default the condition that the wanted city has more than half of the probability; None is Eq. 5 as
            printed.
    """
    env = SequenceEnv(models.classifier, wanted, num_symbols=data.scale.num_symbols, length=len(MONTHS))
    condition: Any = class_is(wanted) if goal == "class" else goal
    return Task(env, models.generator, goal=condition)
