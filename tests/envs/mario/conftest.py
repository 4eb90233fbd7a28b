"""A game of which every step is remembered, and who plays it by heart."""

import pytest
from mario_fake import explored, small
from pprjax_envs.mario import agents as mario_agents


@pytest.fixture(scope="module")
def known():
    """A game of which every step is remembered, and its table."""
    env = explored(**small())
    return env, env.explored()


@pytest.fixture(scope="module")
def players(known):
    _, table = known
    return {player: mario_agents.planner(table, player) for player in mario_agents.COIN_REWARDS}
