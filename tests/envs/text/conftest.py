import pytest
from pprjax_envs.text import agents
from tiny_author import LANGUAGE, SHAPE, SMALL


@pytest.fixture(scope="session")
def author(tmp_path_factory):
    return agents.trained(LANGUAGE, SMALL, SHAPE, folder=tmp_path_factory.mktemp("weights"))[0]
