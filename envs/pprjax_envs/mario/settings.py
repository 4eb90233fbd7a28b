"""What the command, the experiment and the world have in common; imports nothing that is slow to import."""

from pprjax.config import Config

PLAYERS = ("seeker", "dodger")
"""One likes coins, one avoids them."""

GOAL_X = 460
"""Pixels: alive beyond here, past the first enemy and over the first pipe."""

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
"""The paper's λ. The states of the game are nearly a tree: a UCB bonus would try each once and follow Q nowhere."""


def steps_for(goal_x: int) -> int:
    """Steps enough to get beyond goal_x, in pixels: walking takes a step for seven or eight."""
    return 14 + goal_x // 6
