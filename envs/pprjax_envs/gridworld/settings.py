"""What the commands of the grid world have in common; imports nothing that is slow to import."""

from pprjax.config import Config

PAPER = Config(gamma=0.99, learning_rate=1e-3)
"""The paper's γ, learning rate, λ, c_e and C; b and k are better than its 200 and 1."""

DRIVERS = ("experienced", "newbie")
