"""What the command, the experiment and the world have in common; imports nothing that is slow to import."""

import dataclasses

from pprjax.config import Config

PLAYERS = ("seeker", "dodger")
"""One likes coins, one avoids them."""

GOAL_X = 460
"""Pixels: alive beyond here, past the first enemy and over the first pipe."""

REACH = 1300
"""Pixels: how far players learn to play, past four pipes and the first pit. The flag is at 3161."""

SETTINGS = Config(
    habit="link",
    lambda_path=100.0,
    lambda_policy=10.0,
    c_e=0.0,
    epsilon_from="policy",
    epsilon_start=0.5,
    iterations=60,
    num_paths=24,
    num_best=8,
    updates=16,
    batch_size=128,
)
"""Of the learner. The paper's λ. The states of the game are nearly a tree: a UCB bonus would try each once and follow Q
nowhere."""

CALLS = 1500
"""Steps that are played anew for one recourse."""

LAMBDA_PATH, LAMBDA_POLICY = 300.0, 0.1
"""Of the command, under "regret": ten nats of regret cost as much as a pixel of the way."""


@dataclasses.dataclass(frozen=True)
class Original:
    """A game that ended badly: what was done, and how far alive a recourse has to get."""

    title: str
    script: tuple[tuple[int, int], ...]  # an action of `MOVES`, and for how many steps
    goal_x: int  # pixels: 100 beyond where it went wrong

    @property
    def actions(self) -> list[int]:
        return [action for action, count in self.script for _ in range(count)]


MOVES = ("right", "right + A", "left")
"""What originals do; players have the first two."""

_PAST_THE_FIRST = ((0, 39), (1, 1))  # over the first enemy with a tap

ORIGINALS = {
    "enemy": Original("dies at the first enemy", ((0, 60),), 396),
    "pipe": Original("turns back at the first pipe", (*_PAST_THE_FIRST, (0, 20), (2, 24)), 535),
    "pit": Original(
        "falls into the first pit",
        (*_PAST_THE_FIRST, (0, 18), (1, 1), (0, 20), (1, 2), (0, 15), (1, 4), (0, 21), (1, 4), (0, 60)),
        1238,
    ),
}  # fmt: skip
"""By name, in the order of the level."""


def steps_for(goal_x: int) -> int:
    """Steps enough to get beyond goal_x, in pixels: walking takes a step for seven or eight."""
    return 14 + goal_x // 6
