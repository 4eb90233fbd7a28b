"""Agents of PyTorch and of Stable-Baselines3 as P_A. They come with the group `bench`; without it this is skipped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments.classic_control.cartpole import CartPole

import pprjax

torch = pytest.importorskip("torch")

POLE = CartPole()
START = POLE.reset_env(jax.random.key(1), POLE.default_params)[1]
STANDS = 12


def upright(policy):
    return pprjax.Task(
        pprjax.actions_as_symbols(POLE),
        policy=policy,
        goal=pprjax.reached,
        horizon=STANDS,
        start=START,
        reached_goal=lambda state, params: (state.time == STANDS) & ~POLE.is_terminated(state, params),
        goal_to_go=lambda state, params: 1.0 * (STANDS - state.time),
        deterministic=True,
    )


FALLS = pprjax.Paths.from_lists([[2] + [1] * 9])  # always to the right


def test_a_network_of_torch_acts_as_the_same_network_in_jax():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    weights = [jnp.asarray(x.detach().numpy()) for x in network.parameters()]

    def same(weights, seen):
        first, shift, second, last = weights
        return second @ jnp.tanh(first @ seen + shift) + last

    def asked(seen):
        return network(torch.tensor(seen)).detach().numpy()

    on_host = pprjax.ObservationPolicy(pprjax.on_host(asked, 2), temperature=0.2)
    in_jax = pprjax.ObservationPolicy(same, weights, temperature=0.2)
    answers = [pprjax.recourse(upright(policy), FALLS, method="search", calls=3000) for policy in (on_host, in_jax)]
    assert answers[0].paths.to_lists() == answers[1].paths.to_lists()
    np.testing.assert_allclose(answers[0].scores.r_policy, answers[1].scores.r_policy, atol=1e-4)
    assert answers[0].status[0] == "reached_goal"


def test_a_dqn_of_stable_baselines3_is_p_a():
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.DQN("MlpPolicy", pprjax.to_gymnasium(POLE), seed=0, device="cpu", policy_kwargs={"net_arch": [8]})

    def values(seen):
        return model.q_net(torch.tensor(seen)).detach().numpy()

    task = upright(pprjax.ObservationPolicy(pprjax.on_host(values, 2), temperature=1e-3))
    found = pprjax.recourse(task, FALLS, pprjax.Config(lambda_path=0.0, lambda_policy=10.0), method="search")
    state = task.reset(jax.random.key(0))
    for action in found.paths.actions_to_lists()[0]:
        seen = np.asarray(POLE.get_obs(state.inner))
        likeliest = int(model.predict(seen, deterministic=True)[0])
        assert int(task.log_probs((), state)[1].argmax()) == likeliest  # P_A's favourite is what the model does
        state = task.step(jax.random.key(0), state, action)[0]
    assert found.status[0] == "reached_goal"
