"""What the temperature command and its experiment have in common; imports nothing that is slow to import."""

import dataclasses

from pprjax.config import PAPER as PUBLISHED
from pprjax.config import Config

PAPER = dataclasses.replace(
    PUBLISHED,
    lambda_path=10.0,
    lambda_policy=0.1,
    num_paths=500,
    num_best=1,
    iterations=40,
    epsilon_from="policy",
    target="published",
    alignment_aware=False,
    telescoped=False,
    mixed_lanes=False,
    mixed_replay=False,
)
"""The paper's settings: b 500, k 1, γ 0.99, c_e 1, λ_path 10, λ_policy 0.1, rate 1e-3, its target and edits."""

INDEL = 12.0
"""The cost of an inserted or a deleted month: more than twelve replacements, all that there can be, would save. So the
edit distance is the number of months with another value. With 1 a run of months that is shifted by one is two edits."""

SETTINGS = Config(
    lambda_path=10.0,
    lambda_policy=0.3,
    learning_rate=4e-3,
    c_e=0.0,
    epsilon_end=0.15,
    iterations=150,
    num_paths=128,
    num_best=16,
    updates=4,
    width=32,
    w_ins=INDEL,
    w_del=INDEL,
)
"""Better ones. With so many symbols to choose from, a UCB bonus would have each tried once and leave nothing for Q. A
quarter of the paths sample from P_A, so that the others may explore evenly."""

CALLS = 30_000
"""Steps of the classifier that the proof of one year may take."""

BEAM_WIDTH = 128
"""Years of each length and number of changed months that the search keeps: little can be proved, and 16 as by default
lose 2 % of R."""

METHODS = ("PPR", "BL1", "BL2")
"""The methods that are drawn. The table also has what Algorithm 1 learns."""

HEAT_PATH, HEAT_POLICY = (1.0, 10.0, 100.0), (0.1, 1.0, 3.0)
"""λ_path and λ_policy of the heat maps."""

MAX_CHANGES = 8
"""The largest k of BL1."""
