"""What the commands of the grid world have in common; imports nothing that is slow to import."""

from pprjax.config import Config

DRIVERS = ("experienced", "newbie")

SETTINGS = Config(lambda_path=10.0, lambda_policy=0.3)
"""Habits are charged; a nat weighs a third of a move. λ_path = 10 is a tenth of what a good trip earns."""
