"""Paths in the tables of a grid world."""

import numpy as np


def tables(env):
    params = env.default_params
    return np.asarray(params.next_state), np.asarray(params.reward), np.asarray(params.terminal)


def walk(env, actions):
    """The states, kinds of the cells and rewards of a path in the tables."""
    next_state, reward, _ = tables(env)
    states, rewards = [int(env.default_params.start)], []
    for a in actions:
        rewards.append(float(reward[states[-1], a]))
        states.append(int(next_state[states[-1], a]))
    assert min(states) >= 0
    kinds = "".join(env.cells[s % env.cells.size] for s in states)
    return states, kinds, rewards


def greedy(env, policy):
    """The path that takes the likeliest action until the flag."""
    next_state, _, terminal = tables(env)
    state, actions = int(env.default_params.start), []
    while not terminal[state] and len(actions) < env.num_states:
        actions.append(int(np.asarray(policy.probs)[state].argmax()))
        state = int(next_state[state, actions[-1]])
    return actions
