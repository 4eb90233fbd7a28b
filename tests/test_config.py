"""Config: every setting that makes no sense is named; what may be swept is traced, what shapes the program is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pprjax.config import Config, check_config
from pprjax.edit_distance import EditCosts

TRACED = ("lambda_path", "lambda_policy", "gamma", "learning_rate", "c_e", "epsilon_start", "epsilon_end")
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lambda_path": 0.0, "lambda_policy": 0},
        {"lambda_path": np.array([0.1, 1.0, 10.0]), "lambda_policy": [0.0, 0.0, 1.0]},
        {"gamma": 0.0, "epsilon_start": 0.0, "epsilon_end": 1.0, "c_e": 0.0},
        {"num_paths": 1, "num_best": 1, "iterations": 1, "memory": 1, "width": 1, "updates": 1, "target_period": 1},
        {"num_paths": 8, "num_best": 8},
        {"batch_size": 1, "mixed_replay": False},
        {"target": "published", "epsilon_from": "policy", "depth": 2, "edited_lanes": True},
    ],
)
def test_settings_in_range_pass(settings):
    check_config(Config(**settings), 3)


@pytest.mark.parametrize(
    ("name", "value", "got"),
    [
        *[(name, value, str(value)) for name in ("lambda_path", "lambda_policy") for value in (-0.1, NAN, INF)],
        ("lambda_path", np.array([1.0, 2.0]), r"\(2,\)"),
        ("lambda_policy", np.ones((3, 1)), r"\(3, 1\)"),
        ("lambda_policy", np.array([1.0, 2.0, -3.0]), "-3.0"),
        *[
            (name, value, str(value))
            for name in ("gamma", "epsilon_start", "epsilon_end")
            for value in (-0.1, 1.1, NAN)
        ],
        *[(name, value, str(value)) for name in ("learning_rate", "c_e") for value in (-1.0, NAN, INF)],
        *[
            (name, value, str(value))
            for name in ("iterations", "num_paths", "num_best", "target_period", "updates", "memory", "width")
            for value in (0, -1)
        ],
        ("batch_size", 0, "0"),
        ("batch_size", 1, "1"),  # half of it from random paths
        ("depth", -1, "-1"),
        ("num_best", 257, "257"),
        ("epsilon_from", "policies", "'policies'"),
        ("target", "TD", "'TD'"),
        *[(name, value, str(value)) for name in ("w_ins", "w_del", "w_sub") for value in (-1.0, 0.0, NAN, INF)],
    ],
)
def test_a_setting_out_of_range_is_named(name, value, got):
    with pytest.raises(ValueError, match=rf"^{name}: expected .* got .*{got}$"):
        check_config(Config(**{name: value}), 3)


def test_edited_lanes_are_some_of_the_mixed_ones():
    with pytest.raises(ValueError, match=r"^edited_lanes: expected mixed_lanes with it"):
        check_config(Config(edited_lanes=True, mixed_lanes=False), 1)


def test_costs():
    assert Config().objective.costs == EditCosts(1.0, 1.0, 1.0)
    assert Config(w_ins=1.0, w_del=2.0, w_sub=3.0).objective.costs == EditCosts(insert=1.0, delete=2.0, substitute=3.0)


def test_what_may_be_swept_is_traced_and_the_rest_is_static():
    assert jax.tree.leaves(Config()) == [getattr(Config(), name) for name in TRACED]
    traces = []

    @jax.jit
    def program(config):
        traces.append(config.iterations)
        return sum(jnp.asarray(getattr(config, name)) for name in TRACED) * config.iterations

    for name in TRACED:
        program(Config(**{name: 0.75}))
    assert traces == [300]
    program(Config(iterations=7))
    assert traces == [300, 7]


def test_one_call_sweeps_a_setting():
    config = Config(lambda_path=jnp.arange(3.0), gamma=0.5)
    axes = Config(**dict.fromkeys(TRACED)).replace(lambda_path=0)
    worth = jax.vmap(lambda config: config.lambda_path + config.gamma, in_axes=(axes,))(config)
    np.testing.assert_allclose(worth, [0.5, 1.5, 2.5])


def test_a_config_is_immutable_and_replace_gives_another():
    config = Config()
    with pytest.raises(AttributeError):
        config.lambda_path = 1.0
    assert config.replace(lambda_path=1.0).lambda_path == 1.0 != config.lambda_path
