"""Sequences judged by plain Python, and what a world of sequences may be told: against the same in JAX, or by hand."""

import dataclasses
import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from pprjax_envs import SequenceEnv
from pprjax_envs.sequence import Guide, Offered, OnHost, on_host
from search_worlds import Chain

import pprjax
from pprjax.goals import class_is
from pprjax.paths import PAD

V, L, END = 4, 3, 1  # symbols 0, 2 and 3, and an end
CONFIG = pprjax.Config(lambda_policy=0.3)
KEY = jax.random.key(0)
VOTES = np.float32([0.5, 0.0, -1.0, 1.5])  # of each symbol, for class 1


@struct.dataclass
class Votes:
    """Symbols vote, the later the more."""

    votes: jax.Array  # float[V]

    def probs(self, symbols, length):
        del length
        weights = jnp.where(symbols == PAD, 0.0, 1.0 + jnp.arange(L))
        logit = (weights * self.votes[symbols]).sum()
        return jax.nn.sigmoid(jnp.stack([-logit, logit]))


def voted(sequences):
    """The same in NumPy."""
    logits = np.array([((1.0 + np.arange(len(s))) * VOTES[s]).sum() for s in sequences])
    return 1 / (1 + np.exp(np.stack([logits, -logits], axis=1)))


def world(judge=None, **options):
    judge = OnHost(voted, num_classes=2) if judge is None else judge
    return SequenceEnv(judge, 1, **dict(num_symbols=V, length=L, end=END) | options)


def task_of(env, seed=0, goal=pprjax.reached):
    logits = np.random.default_rng(seed).standard_normal((V + 1, V + 1, V))
    return pprjax.Task(env, Chain(jnp.asarray(logits, jnp.float32)), goal=goal)


def after(env, symbols):
    state = env.reset_env(KEY, env.default_params)[1]
    for symbol in symbols:
        state = env.step_env(KEY, state, symbol, env.default_params)[1]
    return state


def test_a_judge_on_the_host_gives_the_frontier_of_the_same_in_jax():
    here, valid = task_of(world()), task_of(world(Votes(jnp.asarray(VOTES))))
    originals = here.env.paths([[2, 2, 0], [0], [3, 2]])
    rows, theirs = (pprjax.frontier(task, originals, CONFIG, method="search") for task in (here, valid))
    here.env.check()
    assert len(rows.index) > 6 and rows.paths.to_lists() == theirs.paths.to_lists()
    np.testing.assert_allclose(rows.value, theirs.value, rtol=1e-5)
    np.testing.assert_allclose(rows.limit, theirs.limit, rtol=1e-5)


def test_it_reads_each_sequence_once_and_may_forget(monkeypatch):
    read = []

    def counted(sequences):
        read.extend(tuple(s.tolist()) for s in sequences)
        return voted(sequences)

    task = task_of(world(OnHost(counted, num_classes=2)))
    originals = task.env.paths([[2, 2, 0], [0], [3, 2]])
    found = pprjax.frontier(task, originals, CONFIG, method="search")
    assert len(read) == len(set(read)) > 20
    monkeypatch.setattr(on_host, "REMEMBERED", 5)
    again = pprjax.frontier(task, originals, CONFIG, method="search")
    task.env.check()
    assert len(read) > len(set(read))
    np.testing.assert_array_equal(again.value, found.value)


def test_what_it_takes_a_sequence_for_is_its_own_affair():
    strict = OnHost(voted, num_classes=2, takes=lambda probs: probs >= 0.99)
    for judge, met in ((None, True), (strict, False)):
        env = world(judge)
        state = after(env, [3, 0, END])
        assert bool(env.reached_goal(state, env.default_params)) == met
        assert 0.9 < float(state.class_probs[1]) < 0.99  # what class_is asks
        assert bool(class_is(1)(task_of(env).outcome(state, jnp.bool_(True), jnp.float32(0.0))))


def test_worlds_of_different_judges_share_a_program():
    one, other = world(), world(OnHost(lambda sequences: voted(sequences)[:, ::-1], num_classes=2))
    assert one == other and hash(one) == hash(other)
    step = jax.jit(lambda env, params, state: env.step_env(KEY, state, END, params)[2], static_argnums=0)
    paid = [float(step(env, env.default_params, after(env, [3]))) for env in (one, other)]
    np.testing.assert_allclose(paid, voted([np.array([3])])[0, ::-1], rtol=1e-6)
    assert step._cache_size() == 1


def test_judges_of_one_function_read_the_layers_of_a_stack_together():
    names, calls = "a.bc", []

    def counted(words):
        calls.append(words)
        return voted([np.array([names.index(letter) for letter in word], np.int32) for word in words])

    def tasks():
        reads = lambda symbols: "".join(names[s] for s in symbols)  # noqa: E731
        return [task_of(world(OnHost(counted, num_classes=2, reads=reads)), seed) for seed in range(3)]

    def rows(task, index):
        found = pprjax.frontier(task, originals[index], CONFIG, method="search", calls=0)
        return found.paths.to_lists()

    originals = tasks()[0].env.paths([[2, 2, 0], [0], [3, 2]])
    together = rows(pprjax.stack(tasks()), slice(None))
    many, calls[:] = list(calls), []
    assert together == [path for i, task in enumerate(tasks()) for path in rows(task, [i])]
    assert max(Counter(itertools.chain(*many)).values()) == 3  # each for itself, and once
    layers = [sum(len(words) > 1 for words in called) for called in (many, calls)]
    assert layers[0] <= L + 1 < layers[1]


def test_what_one_function_raises_is_told_to_all_that_share_it_and_to_no_other():
    def raises(_):
        raise RuntimeError("no opinion")

    envs = [world(OnHost(f, num_classes=2)) for f in (raises, voted, raises)]
    stacked = pprjax.stack([task_of(env) for env in envs])
    with pytest.raises(RuntimeError, match="no opinion"):
        pprjax.frontier(stacked, envs[0].paths([[2], [2], [2]]), CONFIG, method="search", calls=0)
    envs[1].check()
    with pytest.raises(RuntimeError, match="no opinion"):
        envs[2].check()


def test_functions_that_cannot_be_compared_are_asked_each_for_itself():
    @dataclasses.dataclass
    class Voted:
        votes: np.ndarray

        def __call__(self, sequences):
            return voted(sequences)

    envs = [world(OnHost(Voted(np.zeros(2)), num_classes=2)) for _ in range(2)]
    found = pprjax.frontier(pprjax.stack([task_of(env) for env in envs]), envs[0].paths([[2], [3]]), CONFIG, calls=0)
    alone = pprjax.frontier(task_of(world()), envs[0].paths([[2], [3]]), CONFIG, method="search", calls=0)
    assert found.paths.to_lists() == alone.paths.to_lists()


def test_what_it_raises_is_raised_by_check_once():
    env = world(OnHost(lambda sequences: np.zeros((len(sequences), 3)), num_classes=2))
    assert np.isnan(float(env.promise(after(env, [3]), env.default_params)))
    with pytest.raises(ValueError, match=r"probs: expected float\[1, 2\], got shape \(1, 3\)"):
        env.check()
    env.check()
    with pytest.raises(ValueError, match="num_classes: expected at least 2, got 1"):
        OnHost(voted, num_classes=1)


def test_a_judge_that_is_gone_is_told():
    known = OnHost(voted, num_classes=2).known()
    with pytest.raises(Exception, match="its OnHost is gone"):
        jax.block_until_ready(known.probs(jnp.array([3, PAD, PAD]), jnp.int32(1)))


def test_what_is_not_offered_is_neither_chosen_nor_judged():
    def careful(sequences):
        assert not any(3 in s for s in sequences)
        return voted(sequences)

    offered = Offered(symbols=np.arange(V) != 3)
    for options, chosen in (({}, True), ({"offered": offered}, False)):
        env = world(OnHost(careful if options else voted, num_classes=2), **options)
        task = task_of(env)
        found = pprjax.frontier(task, env.paths([[2, 2, 0]]), CONFIG, method="search", calls=0)
        env.check()
        assert any(3 in path for path in found.paths.to_lists()) == chosen
        assert env.available(after(env, [0]), env.default_params).tolist() == [True, True, True, chosen]


def test_a_symbol_is_liked_where_it_is_likelier_than_one_of_all_that_the_agent_knows():
    offered = Offered(symbols=np.ones(V, bool), action_set_size=40)
    scores = []
    for options in ({}, {"offered": offered}):
        task = task_of(world(**options))
        path = task.env.paths([[2, 2]])
        scores.append(float(pprjax.score(task, path, path, CONFIG.replace(habit="link")).r_policy[0]))
    assert scores[1] > scores[0] + 1


def test_a_sequence_may_need_some_symbols():
    env = world(length=(2, L))
    may_end = [bool(env.available(after(env, [0] * n), env.default_params)[END]) for n in range(4)]
    assert may_end == [False, False, True, True]
    shortest = []
    for task in (task_of(world()), task_of(env)):
        hasty = task.replace(policy=Chain(task.policy.logits.at[..., END].add(9.0)))  # which likes to end at once
        found = pprjax.frontier(hasty, env.paths([[2, 2, 0]]), CONFIG, method="search")
        shortest.append(min(map(len, found.paths.to_lists())) - 2)  # less the start and the end
    assert shortest == [1, 2]  # what has no symbol is not taken for class 1
    assert float(env.promise(after(env, [3]), env.default_params)) == 0.0  # no sequence yet
    with pytest.raises(ValueError, match=r"sequences\[1\]: expected 2 to 3 symbols, got 1"):
        env.paths([[0, 2], [0]])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda probs: 10 * probs - 5, r"probs: expected probabilities in \[0, 1\], got -"),
        (lambda probs: probs * np.nan, r"probs: expected probabilities in \[0, 1\], got nan"),
        (lambda probs: probs[:, 0], r"probs: expected float\[\d+, 2\], got shape"),
    ],
)
def test_a_judge_that_gives_no_probabilities_is_named_by_the_search(wrong, said):
    env = SequenceEnv(OnHost(lambda rows: wrong(voted(rows)), num_classes=2), 1, num_symbols=4, length=3, end=END)
    with pytest.raises(ValueError, match=said):
        pprjax.frontier(task_of(env), env.paths([[2, 2, 0]]), CONFIG, method="search")


def test_a_guide_weighs_guesses_and_ends():
    effects = np.array([0.1, 0.0, -0.9, 0.9])
    plain, guided = world(), world(guide=Guide(weight=2.0, effects=effects, every_end=True))
    assert not hasattr(plain, "next_promise") and not hasattr(plain, "end_action") and plain != guided
    state, params = after(guided, [3]), guided.default_params
    opinion = voted([np.array([3])])[0, 1]
    np.testing.assert_allclose(plain.promise(after(plain, [3]), plain.default_params), opinion, rtol=1e-6)
    np.testing.assert_allclose(guided.promise(state, params), 2 * opinion, rtol=1e-6)
    np.testing.assert_allclose(guided.next_promise(state, params), 2 * np.clip(opinion + effects, 0, 1), rtol=1e-6)
    assert int(guided.end_action(state, params)) == END
    assert not hasattr(world(end=None, guide=Guide(every_end=True)), "end_action")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(length=(2, 1)), r"length: expected a least number in \[0, 1\], got 2"),
        (dict(length=(1, 2), end=None), r"length: expected one number where there is no end, got \(1, 2\)"),
        (dict(offered=Offered(symbols=np.ones(5, bool))), r"offered.symbols: expected one .* of 4 symbols, got \(5,\)"),
        (dict(guide=Guide(effects=np.ones(3))), r"guide.effects: expected one entry .* of 4 symbols, got \(3,\)"),
    ],
)
def test_says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        world(**options)
