"""What the benchmark of traces scores with: on made-up traces whose scores are known by hand."""

import itertools

import numpy as np
import pytest
from benches import bench

from pprjax import declare
from pprjax.paths import PAD

traces = bench("traces")

H, V, L = 3, 5, 6


def test_y_nn_is_the_share_of_the_five_nearest_and_says_what_ties_leave_open():
    wanted = np.array([1.0, 0, 1, 0, 1, 1, 0])
    apart = np.array([[0, 1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 2, 2, 2], [3, 3, 3, 3, 3, 3, 3]])
    mean, least, most = traces.near(apart, wanted)
    np.testing.assert_allclose(mean, [3 / 5, (2 + 2 / 3) / 5, 4 / 7])
    np.testing.assert_allclose(least, [3 / 5, 2 / 5, 2 / 5])
    np.testing.assert_allclose(most, [3 / 5, 3 / 5, 4 / 5])


def test_distances_are_of_padded_rows():
    some, others = np.array([[1, 2, 3, 0]]), np.array([[1, 2, 3, 0], [1, 3, 0, 0], [2, 1, 2, 3]])
    np.testing.assert_array_equal(traces.distances(some, others), [[0, 2, 2]])


TEXTS = ["init(1-1)", "last(4-4)", "exactly(2-2)", "co_existence(2-3)", "precedence(1-2)", "response(2-4)",
         "succession(2-4)", "not_succession(4-2)"]  # fmt: skip


def test_violations_are_the_share_of_the_rules_that_are_broken():
    rules = traces.rules_of(TEXTS)
    assert traces.broken([1, 2, 3, 4, 0, 0], rules) == 0
    assert traces.broken([2, 1, 4, 0, 0, 0], rules) == 3 / 8  # init, co_existence without a 3, precedence
    assert traces.broken([1, 3, 0, 0, 0, 0], rules) == 7 / 8  # all but init: what misses a symbol is broken


def test_rules_of_traces_and_of_their_paths_agree():
    rules = traces.rules_of(TEXTS)
    start = V
    for rule in rules:
        automaton = declare.product(tuple(traces.in_paths([rule], start)))
        for n in range(5):
            rows = list(itertools.product(range(1, V), repeat=n))
            paths = np.array([[start, *row, traces.END, PAD] for row in rows])
            expected = [traces.broken(row, [rule]) == 0 for row in rows]
            np.testing.assert_array_equal(automaton.accepts(paths), expected, err_msg=str(rule))


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    shapes = {
        "judge.fc1.weight": (2, 2 * H),
        "judge.fc1.bias": (2,),
        "judge.fc2.weight": (1, 2),
        "judge.fc2.bias": (1,),
    }
    for layer, way in itertools.product((0, 1), ("", "_reverse")):
        sizes = {"weight_ih": (4 * H, 2 * H if layer else V), "weight_hh": (4 * H, H)}
        sizes |= {"bias_ih": (4 * H,), "bias_hh": (4 * H,)}
        shapes |= {f"judge.lstm1.{name}_l{layer}{way}": shape for name, shape in sizes.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def read(weights, which, inputs):
    """The outputs of one LSTM, as PyTorch's documentation has it."""
    w = {name: weights[f"judge.lstm1.{name}_{which}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    output, memory, outputs = np.zeros(H), np.zeros(H), []
    for x in inputs:
        gates = w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ output + w["bias_hh"]
        i, f, o = (1 / (1 + np.exp(-gates[k * H : (k + 1) * H])) for k in (0, 1, 3))
        memory = f * memory + i * np.tanh(gates[2 * H : 3 * H])
        output = o * np.tanh(memory)
        outputs.append(output)
    return np.array(outputs)


def test_the_judge_is_pytorchs(weights):
    rows = np.array([[1, 2, 3, 4, 4, 1], [4, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    expected = []
    for row in rows:
        x = np.eye(V)[row]
        for layer in (0, 1):
            back = read(weights, f"l{layer}_reverse", x[::-1])[::-1]
            x = np.concatenate([read(weights, f"l{layer}", x), back], axis=1)
        hidden = weights["judge.fc1.weight"] @ x[-1] + weights["judge.fc1.bias"]
        expected.append(1 / (1 + np.exp((weights["judge.fc2.weight"] @ hidden + weights["judge.fc2.bias"])[0])))
    np.testing.assert_allclose(traces.opinions(traces.judge_of(weights), rows), expected, rtol=1e-4)


def test_an_agent_goes_by_the_longest_context_it_knows():
    agent = traces.contexts(
        np.array([[1, 2, 0], [1, 3, 0]]), np.array([2.0, 1.0]), num_symbols=V, order=2, strength=0.5
    )
    log_probs, next_state = np.asarray(agent.log_probs), np.asarray(agent.next_state)
    np.testing.assert_allclose(np.exp(log_probs).sum(1), 1.0, rtol=1e-5)
    start = next_state[0, V]
    one = next_state[start, 1]
    none = (np.array([3, 3, 2, 1, 0]) + 0.5 / V) / 9.5  # ends and symbols, by their weights
    after = (np.array([0, 0, 2, 1, 0]) + 0.5 * none) / 3.5  # a 1
    np.testing.assert_allclose(np.exp(log_probs[one]), (np.array([0, 0, 2, 1, 0]) + 0.5 * after) / 3.5, rtol=1e-5)
    unknown = next_state[one, 4]
    np.testing.assert_allclose(np.exp(log_probs[unknown]), none, rtol=1e-5)
