"""Rules of a process: each template as its definition says, in every method, beside what no rule changes."""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, Mdp, edit, worth
from declare_oracle import COUNTS, MEANING, keeps
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import SequenceEnv
from ring_road import CONFIG, KEY, ORIGINALS, ring
from search_worlds import ALL, V, sequences

import pprjax
from pprjax import Config, Constraints, Paths, TabularMDP, declare
from pprjax.declare import Rule
from pprjax.paths import PAD
from pprjax.ruled import with_rules, without_rules

A, B = 3, 7


def accepts(automaton, paths):
    """Which paths an automaton accepts."""
    longest = max(map(len, paths))
    return automaton.accepts(np.array([[*path, *[PAD] * (longest - len(path))] for path in paths])).tolist()


PATHS = [path for n in range(1, 6) for path in itertools.product((A, B, 0, 9), repeat=n)]
RULES = [
    *(getattr(declare, name)(a) for name in ("init", "last") for a in (A, B)),
    *(getattr(declare, name)(A, n) for name in COUNTS for n in (1, 2, 3)),
    *(getattr(declare, name)(*pair, vacuous=v) for name in MEANING for pair in ((A, B), (B, A)) for v in (True, False)),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_an_automaton_accepts_what_keeps_the_rule(rule):
    automaton = declare.automaton(rule)
    told = accepts(automaton, PATHS)
    assert told == [keeps(rule, path) for path in PATHS]
    assert 0 < sum(told) < len(told)


def test_every_template_is_tested():
    assert {rule.name for rule in RULES} == set(declare.ONE + declare.TWO)


rules_of = st.lists(
    st.one_of(
        st.builds(Rule, st.sampled_from(("init", "last")), st.tuples(st.integers(0, 3))),
        st.builds(Rule, st.sampled_from(sorted(COUNTS)), st.tuples(st.integers(0, 3)), st.integers(1, 3)),
        st.builds(
            lambda name, pair, vacuous: Rule(name, tuple(pair), vacuous=vacuous),
            st.sampled_from(sorted(MEANING)),
            st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True),
            st.booleans(),
        ),
    ),
    min_size=1,
    max_size=5,
).map(tuple)


@settings(max_examples=150, deadline=None)
@given(rules=rules_of, paths=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=20))
def test_the_product_is_the_conjunction_and_knows_when_all_is_lost(rules, paths):
    try:
        product = declare.product(rules)
    except ValueError as error:
        assert "no path at all keeps" in str(error)
        assert not any(all(keeps(rule, path) for rule in rules) for path in paths)
        return
    assert accepts(product, paths) == [all(keeps(rule, path) for rule in rules) for path in paths]
    for path in paths:
        state = 0
        for symbol in path:
            (rows,) = np.nonzero(product.symbols == symbol)
            state = int(product.next_state[state, rows[0] if rows.size else -1])
        way = shortest_way(product, state)
        assert (way is None) == product.hopeless[state]
        assert way is None or all(keeps(rule, [*path, *way]) for rule in rules)


def shortest_way(automaton, state):
    """The shortest row of symbols that leads from a state to an accepting one; None where there is none."""
    ways = {state: []}
    for here in (queue := [state]):
        if automaton.accepting[here]:
            return ways[here]
        for symbol, after in zip([*automaton.symbols, 99], automaton.next_state[here].tolist(), strict=True):
            if after not in ways:
                ways[after] = [*ways[here], int(symbol)]
                queue.append(after)
    return None


def ruled_paths(mdp, rules):
    """(states, symbols, actions) of every path of a small world that goes nowhere from where all is lost, as the
    automaton says, and ends where nothing is left to do; those that keep all rules."""
    product = declare.product(rules)

    def read(q, symbol):
        (rows,) = np.nonzero(product.symbols == symbol)
        return product.next_state[q, rows[0] if rows.size else -1]

    open_paths = [((0,), (), read(0, mdp.symbols[0]))]
    while open_paths:
        states, actions, q = open_paths.pop()
        moves = [(int(a), int(mdp.next_state[states[-1], a])) for a in mdp.usable(states[-1])]
        moves = [(a, s, read(q, mdp.symbols[s])) for a, s in moves]
        moves = [(a, s, after) for a, s, after in moves if not product.hopeless[after]]
        if len(actions) == HORIZON or not moves:
            symbols = mdp.symbols[list(states)].tolist()
            if all(keeps(rule, symbols) for rule in rules):
                yield states, symbols, actions
            continue
        open_paths += [((*states, s), (*actions, a), after) for a, s, after in moves]


SETS = [
    (declare.absence(4, 3), declare.precedence(3, 5)),
    (declare.response(4, 3),),
    (declare.chain_response(3, 4), declare.not_succession(5, 3)),
]


@pytest.mark.parametrize("rules", SETS, ids=lambda rules: "+".join(map(str, rules)))
def test_the_certificate_is_the_best_of_all_paths_that_keep_the_rules(rules):
    seen = {"bound": 0, "infeasible": 0, "same": 0}
    for seed in range(14):  # habits in turn
        mdp, goal = Mdp(seed), ("none", "reached", "at_least")[seed % 3]
        task = mdp.task(GOALS[goal])
        config = Config(lambda_path=3.0, lambda_policy=0.5, habit=mdp.habit)
        originals = Paths.from_lists(mdp.originals).padded_to(HORIZON + 3)
        found = pprjax.exact(task.replace(constraints=Constraints(rules=rules)), originals, config)
        free = pprjax.exact(task, originals, config)
        np.testing.assert_array_equal(found.original_goal, free.original_goal)
        paths = list(ruled_paths(mdp, rules))
        for b, original in enumerate(mdp.originals):
            best = -np.inf
            for states, symbols, actions in paths:
                earned, value = worth(mdp, states, actions, original, 3.0, 0.5, {})
                best = max(best, value if mdp.meets(goal, states[-1], earned, original) else -np.inf)
                del symbols
            np.testing.assert_allclose(found.reward[b], best, rtol=1e-5, atol=1e-5)
            infeasible = found.status[b] == "infeasible"
            assert infeasible == (best == -np.inf)
            seen["infeasible"] += infeasible
            if infeasible:
                continue
            assert all(keeps(rule, found.paths.to_lists()[b]) for rule in rules)
            assert found.scores.violations[b] == 0
            if all(keeps(rule, free.paths.to_lists()[b]) for rule in rules) and free.status[b] != "infeasible":
                seen["same"] += 1
                one, other = (jax.tree.map(lambda x, b=b: x[b], x.scores) for x in (found, free))
                assert jax.tree.leaves(one) == jax.tree.leaves(other)
            else:
                seen["bound"] += 1
    assert min(seen.values()) > 3, seen


TWICE = (declare.exactly(3, 2), declare.not_succession(5, 1))
"""Of the ring road: past 3 twice, which costs edits."""


def test_search_and_frontier_find_what_is_certified():
    task, originals = ring(rules=TWICE), Paths.from_lists(ORIGINALS)
    rungs = pprjax.frontier(task, originals, CONFIG, method="exact")
    searched = pprjax.frontier(task, originals, CONFIG, method="search")
    for found in (rungs, searched):
        assert len(found.index) > len(ORIGINALS)  # more rungs than one
        for b, path, distance in zip(found.index, found.paths.to_lists(), found.distance, strict=True):
            assert all(keeps(rule, path) for rule in TWICE)
            assert edit(ORIGINALS[b], path, {}) == distance
    np.testing.assert_allclose(searched.value, rungs.value, rtol=1e-5)
    best = pprjax.exact(task, originals, CONFIG)
    np.testing.assert_allclose(rungs.at(CONFIG.lambda_path).reward, best.reward, rtol=1e-5)
    free = pprjax.exact(ring(), originals, CONFIG)
    assert (best.reward < free.reward - 1e-3).all()  # these rules bind
    several = pprjax.recourse(task, originals, CONFIG, n_recourses=3, min_distance=2)
    assert several.method.tolist() == ["exact"] * len(several.index)
    assert len(several.index) > len(ORIGINALS)
    assert all(keeps(rule, path) for rule in TWICE for path in several.paths.to_lists())
    np.testing.assert_allclose(several.reward[several.rank == 1], best.reward, rtol=1e-5)


def test_search_proves_the_best_sequence_where_the_agent_remembers():
    rules = (declare.not_succession(0, 1), declare.existence(2), declare.init(V))
    config = Config(lambda_path=1.0, lambda_policy=0.3)
    kept = np.array([all(keeps(rule, (V, *row)) for rule in rules) for row in ALL.tolist()])
    assert 0 < kept.sum() < len(ALL)
    free = sequences(0)
    task = free.replace(constraints=Constraints(rules=rules))
    originals = ALL[[5, 77, 200]]
    found = pprjax.recourse(task, free.env.paths(originals), config, method="search")
    assert all(keeps(rule, path) for rule in rules for path in found.paths.to_lists())
    bound = False
    for i, original in enumerate(originals):
        scores = pprjax.score(free, free.env.paths([original] * len(ALL)), free.env.paths(ALL), config)
        value = scores.goal + scores.path * 1.0 + 0.3 * scores.r_policy
        value = np.where(scores.goal > 0.5, value, -np.inf)
        assert found.reward[i] == pytest.approx(value[kept].max(), abs=1e-4)
        assert found.bound[i] == pytest.approx(found.reward[i], abs=1e-4)  # proved
        bound |= value.max() > value[kept].max() + 1e-3
    assert bound


@pytest.mark.slow
def test_learning_never_breaks_a_rule_and_finds_the_best_that_does_not():
    task, originals = ring(rules=TWICE), Paths.from_lists(ORIGINALS)
    found = pprjax.recourse(task, originals, CONFIG, method="learn", key=KEY, progress=False)
    best = pprjax.exact(task, originals, CONFIG)
    np.testing.assert_allclose(found.reward, best.reward, atol=1e-4)
    assert all(keeps(rule, path) for rule in TWICE for path in found.paths.to_lists())
    assert found.status.tolist() == ["reached_goal"] * len(ORIGINALS)
    assert (found.scores.violations == 0).all()


@pytest.mark.slow
def test_rungs_and_several_recourses_that_are_learned_keep_the_rules():
    task, originals = ring(rules=TWICE), Paths.from_lists(ORIGINALS)
    options = dict(method="learn", key=KEY, progress=False)
    rungs = pprjax.frontier(task, originals, CONFIG, **options)
    several = pprjax.recourse(task, originals, CONFIG, n_recourses=2, **options)
    for found in (rungs, several):
        assert len(found.index) > len(ORIGINALS)
        assert all(keeps(rule, path) for rule in TWICE for path in found.paths.to_lists())


def test_an_original_is_left_alone_or_repaired():
    """One that keeps goal and rules stays; one that reaches the goal and breaks a rule does not."""
    fine, broken = [0, 1, 3, 4, 6], [0, 1, 2, 3, 4, 6]
    task = ring(rules=[declare.absence(2)])
    config = Config(lambda_path=30.0, lambda_policy=0.3)
    found = pprjax.exact(task, Paths.from_lists([fine, broken]), config)
    assert found.status.tolist() == ["unchanged", "reached_goal"]
    assert found.paths.to_lists()[0] == fine and 2 not in found.paths.to_lists()[1]
    free = pprjax.exact(ring(), Paths.from_lists([fine, broken]), config)
    assert free.status.tolist() == ["unchanged"] * 2
    np.testing.assert_array_equal(found.original_goal, free.original_goal)
    for name in ("goal", "r_policy", "policy"):  # the first is the same path, of the same worth
        assert getattr(found.scores, name)[0] == getattr(free.scores, name)[0]


def test_where_a_world_cannot_keep_the_rules_it_is_infeasible_with_proof():
    originals = Paths.from_lists(ORIGINALS)
    for rules in ([declare.init(1)], [declare.exactly(4, 2), declare.absence(2)]):
        found = pprjax.recourse(ring(rules=rules), originals, CONFIG)
        assert found.method.tolist() == ["exact"] * 3
        assert found.status.tolist() == ["infeasible"] * 3
        assert found.paths.to_lists() == [[0]] * 3


def chancy(rules):
    """From 0 action 0 leads to 1, and once in a hundred to 2; action 1 to 1. Then 3, where all ends."""
    transition = np.zeros((4, 2, 4))
    transition[0, 0, [1, 2]] = 0.99, 0.01
    transition[0, 1, 1] = transition[1, :, 3] = transition[2, :, 3] = 1.0
    env = TabularMDP(None, np.array([[5, 0], [0, 1], [0, 0], [0, 0]]), np.arange(4) == 3, 0, 4, transition=transition)
    policy = pprjax.TablePolicy(np.full((4, 2), 0.5, np.float32))
    return with_rules(pprjax.Task(env, policy, constraints=Constraints(rules=rules)))


def test_in_a_world_of_chance_what_might_lose_all_is_not_done_and_what_may_be_mended_is():
    absent, answered = chancy([declare.absence(2)]), chancy([declare.response(2, 3)])
    start = absent.reset(KEY)
    np.testing.assert_array_equal(absent.available(start), [False, True])
    np.testing.assert_array_equal(answered.available(answered.reset(KEY)), [True, True])
    assert not absent.deterministic
    with pytest.raises(ValueError, match="chance decides where action 0 in state 0 leads"):
        pprjax.exact(absent, Paths.from_lists([[0, 2, 3]]), CONFIG)
    each_its_own = np.broadcast_to(without_rules(absent).env.transition_probs(absent.params), (4, 4, 2, 4))
    timed = absent.replace(params=without_rules(absent).env.with_chances(absent.params, each_its_own))
    np.testing.assert_array_equal(timed.available(start), [True, True])  # judged at the end


def test_the_product_is_the_world_and_what_the_rules_remember():
    free, task = ring(), with_rules(ring(rules=TWICE))
    assert with_rules(task) is task and with_rules(free) is free
    back = without_rules(task)
    assert back.env is not task.env and back.env == free.env
    np.testing.assert_array_equal(back.policy.probs, free.policy.probs)
    again = with_rules(ring(rules=list(TWICE)))
    assert again.env == task.env and hash(again.env) == hash(task.env)  # one compiled program
    q = declare.product(TWICE).num_states
    assert task.num_states == 7 * q
    numbers = np.arange(7 * q)
    states = task.all_states()
    np.testing.assert_array_equal(jax.vmap(task.state_id)(states), numbers)
    np.testing.assert_array_equal(jax.vmap(task.symbol)(states), numbers // q)
    np.testing.assert_array_equal(task.habit_table("regret")[::q], free.habit_table("regret"))
    assert not hasattr(task.env, "goal_bound") and hasattr(with_rules_of_sequences().env, "goal_bound")


def with_rules_of_sequences():
    return with_rules(sequences(0).replace(constraints=Constraints(rules=TWICE)))


def test_a_world_without_numbers_shows_what_is_remembered():
    task = with_rules_of_sequences()
    state = task.reset(KEY)
    seen = task.observation(state)
    after, *_ = task.step(KEY, state, 3)
    q = declare.product(TWICE).num_states
    assert seen.shape == (len(without_rules(task).observation(state.inner)) + q,)
    assert seen[-q:].sum() == 1 and not np.array_equal(seen[-q:], task.observation(after)[-q:])
    assert task.num_states is None


class Reader(nn.Module):
    @nn.compact
    def __call__(self, observation):
        return nn.Dense(8)(observation), jnp.ones((V, 8))


class Read(SequenceEnv):
    def encoder(self, width):
        return Reader()


def test_an_encoder_reads_what_the_world_shows_and_beside_it_what_is_remembered():
    plain = sequences(0)
    world = Read(plain.params.classifier, 1, num_symbols=V, length=4)
    task = with_rules(pprjax.Task(world, plain.policy, constraints=Constraints(rules=TWICE)))
    module, seen = task.env.encoder(8), task.observation(task.reset(KEY))
    weights = module.init(KEY, seen)
    features, actions = module.apply(weights, seen)
    q = declare.product(TWICE).num_states
    own = Reader().apply({"params": weights["params"]["encoder"]}, seen[:-q])[0]
    np.testing.assert_allclose(features - own, weights["params"]["memory"]["kernel"][np.argmax(seen[-q:])], atol=1e-6)
    assert actions.shape == (V, 8)


def test_a_certificate_that_would_be_too_large_says_that_rules_are_part_of_it(monkeypatch):
    monkeypatch.setattr("pprjax.limits.MAX_LAYER", 3)
    with pytest.raises(ValueError, match="more than 3 states: with what 2 rules remember, too many for a certificate"):
        pprjax.exact(ring(rules=TWICE), Paths.from_lists(ORIGINALS), CONFIG)


def test_score_counts_the_rules_that_are_broken():
    rules = [declare.absence(1), declare.response(3, 4), declare.last(6), declare.absence(99)]
    paths = [[0, 1, 2, 3], [0, 1, 3, 4, 6], [0, 5, 2, 3, 6]]
    scores = pprjax.score(ring(rules=rules), Paths.from_lists([ORIGINALS[0]] * 3), Paths.from_lists(paths))
    assert scores.violations.tolist() == [sum(not keeps(r, path) for r in rules) for path in paths] == [3, 1, 1]


def test_tasks_of_the_same_rules_stack():
    tasks = [ring(rules=[declare.absence(2)]), ring(rules=[declare.absence(2)])]
    found = pprjax.recourse(pprjax.stack(tasks), Paths.from_lists(ORIGINALS[:2]), CONFIG)
    alone = pprjax.recourse(tasks[0], Paths.from_lists(ORIGINALS[:2]), CONFIG)
    assert found.paths.to_lists() == alone.paths.to_lists()
    with pytest.raises(ValueError, match=r"tasks\[1\]\.constraints: expected a task like tasks\[0\]"):
        pprjax.stack([tasks[0], ring(rules=[declare.absence(4)])])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            lambda: [declare.absence(5), declare.last(1), declare.existence(5, 2)],
            r"keeps absence\(5, 1\) and existence",
        ),
        (lambda: [declare.chain_response(1, 2), declare.last(1)], r"keeps chain_response\(1, 2\) and last\(1\)"),
        (
            lambda: [declare.exactly(i, 9) for i in range(5)],
            r"first 3 of 5 rules has 1001 states; expected at most 1000",
        ),
        (lambda: [Rule("succesion", (1, 2))], "expected one of init, last, .* got 'succesion'"),
        (lambda: [declare.response(1, 1)], r"response\(1, 1\): expected 2 symbols that differ, got 1, 1"),
        (lambda: [declare.init(-1)], r"init\(-1\): expected symbols of at least 0, got -1"),
        (lambda: [declare.exactly(1, 0)], r"exactly\(1, 0\): expected a count in \[1, 1000\], got 0"),
        (lambda: [Rule("init", (1,), 2)], r"init\(1\): expected a count 1, since .* got 2"),
        (lambda: [Rule("last", (1,), vacuous=False)], "only a template of two symbols"),
        (lambda: [declare.init("a")], r"init\(a\): expected integers"),
    ],
)
def test_mistakes_are_named(rules, message):
    with pytest.raises(ValueError, match=message):
        Constraints(rules=rules())


def test_what_is_no_rule_is_named():
    with pytest.raises(TypeError, match=r"rules\[1\]: expected a rule of pprjax\.declare, got 'init'"):
        Constraints(rules=[declare.init(0), "init"])
    assert ring().replace(constraints=Constraints(rules=[])).constraints is None
