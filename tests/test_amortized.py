"""One network for many originals: its targets are exact, its answers to unseen originals are near the certificates."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from log_walks import CONFIG, NAMED, WALKS
from pprjax_envs import GridWorld, TabularMDP, gridworld

import pprjax
from pprjax import amortized, bulk, goals
from pprjax.metrics import relative_gap

MAP = ("S.#.", "....", ".#..", "...F")
ENV = GridWorld(MAP, max_steps=11)
TASK = pprjax.Task(ENV, gridworld.agent(ENV, "newbie"), goal=goals.reached)
KEY = jax.random.key(0)
ROUTES = gridworld.bad_paths(ENV, 240, seed=1)
UNSEEN, SEEN = ROUTES[:60], ROUTES[60:]


@pytest.fixture(scope="module")
def net():
    return pprjax.amortize(TASK, SEEN, pprjax.Config(iterations=60), key=KEY, width=32)


def weights(lambda_path, lambda_policy=0.1):
    return pprjax.Config(lambda_path=lambda_path, lambda_policy=lambda_policy)


def distance(one, other):
    """Levenshtein by the book."""
    row = list(range(len(other) + 1))
    for i, x in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def test_every_action_is_told_the_best_path_that_goes_on_with_it():
    """Q = r + λ_policy·h + V + λ_path·u, beside the best of all paths that share a prefix."""
    next_state = np.array([[1, 2, 0], [3, 0, -1], [2, 3, 1], [-1, -1, -1]])
    reward = np.array([[-1, 0.5, -0.2], [-3, -1, 0], [0.3, -2, 0], [0, 0, 0]])
    probs = np.array([[0.2, 0.7, 0.1], [0.6, 0.4, 0], [0.1, 0.3, 0.6], [1, 0, 0]])
    original = [0, 1, 0, 2, 2]
    lambda_path, lambda_policy = 5.0, 0.7
    h = np.asarray(pprjax.link(probs, 3))

    best = {}
    for length in range(1, 6):
        for actions in itertools.product(range(3), repeat=length):
            states, earned = [0], 0.0
            for action in actions:
                if states[-1] == 3 or next_state[states[-1], action] < 0:
                    break
                earned += reward[states[-1], action] + lambda_policy * h[states[-1], action]
                states.append(int(next_state[states[-1], action]))
            if len(states) == length + 1 and states[-1] == 3:
                total = earned + lambda_path / (distance(original, states) + 1)
                for t in range(1, length + 1):
                    best[actions[:t]] = max(best.get(actions[:t], -np.inf), total)

    met = np.array([False, False, False, True])
    world = amortized._world(next_state, reward, np.arange(4), met, met, met, np.arange(4))
    paths = pprjax.Paths.from_lists([original])
    symbols, actions = amortized._places(world, paths)[0], amortized._actions(paths, 8)[0]
    prob, both = amortized._moves(world, probs), (np.float32(lambda_path), np.float32(lambda_policy))
    case = amortized._cases(symbols, actions, paths.lengths[0], prob, *both)
    net = amortized._network(world, 5, 8)

    @jax.jit
    def walked(noise):
        known = amortized._known(world, case, 5)
        reading, _, _ = amortized._reading(world, case, known)
        params = amortized._initial(net, world, case, KEY)
        context = amortized._encode(net, params, reading)
        walk = partial(amortized._walk, net, params, world, case, known, context)
        _, steps = walk(jnp.float32(1.0), jnp.full(5, -1), noise)
        values = amortized._best_values(world, case, known)
        label = partial(amortized._labels, world, case, known, values)
        return known, steps, jax.vmap(label)(steps.lane, jnp.arange(5), steps.lead)

    seen = 0
    for noise in jax.random.uniform(KEY, (12, 5, 3), minval=0.1):
        known, steps, share = jax.device_get(walked(noise))
        taken, earned = (), 0.0
        for t in range(int(steps.taken.sum())):
            row = steps.lane.row[t]
            q = earned + known.ahead[t, row] + lambda_path * (steps.lead[t] + share[t])
            for move, action in enumerate(np.asarray(world.action)[row].tolist()):
                expected = best.get((*taken, action), -np.inf)
                assert q[move] == expected == -np.inf or abs(q[move] - expected) < 1e-4
                seen += np.isfinite(expected)
            taken += (int(world.action[row, steps.move[t]]),)
            earned += known.edges[row, steps.move[t]]
    assert seen > 50


@pytest.mark.parametrize(("lambda_path", "lambda_policy"), [(0.1, 0.1), (10.0, 1.0), (30.0, 0.1), (100.0, 0.1)])
def test_unseen_originals_are_answered_near_the_certified_optimum(net, lambda_path, lambda_policy):
    config = weights(lambda_path, lambda_policy)
    found, best = net.recourse(UNSEEN, config), pprjax.exact(TASK, UNSEEN, config)
    gap = relative_gap(found.reward, best.reward)
    assert gap.min() > -1e-5
    assert (gap <= 0.02).mean() >= 0.9
    assert np.isin(found.status, ["reached_goal", "unchanged"]).all()
    scores = pprjax.score(TASK, UNSEEN, found.paths)
    for name in ("goal", "path", "link", "policy", "distance"):
        np.testing.assert_allclose(getattr(found.scores, name), getattr(scores, name), rtol=1e-4, atol=1e-4)
    total = scores.goal + lambda_path * scores.path + lambda_policy * scores.link
    np.testing.assert_allclose(found.reward, total, rtol=1e-4)


def test_it_is_what_the_network_learned(net):
    """Without it no lane heeds the original, unless it follows it: far off where closeness counts."""
    config = weights(30.0)
    best = pprjax.exact(TASK, UNSEEN, config).reward
    nothing = net.replace(params=jax.tree.map(jnp.zeros_like, net.params))
    learned, without = (relative_gap(n.recourse(UNSEEN, config).greedy_reward, best) for n in (net, nothing))
    free = pprjax.exact(TASK, UNSEEN, weights(0.0))
    np.testing.assert_allclose(
        nothing.recourse(UNSEEN, config).greedy_reward,
        free.scores.goal + 0.1 * free.scores.link + 30.0 / (1 + distances(free.paths)),
        rtol=1e-5,
    )
    assert learned.mean() < without.mean() / 2


def distances(paths):
    return np.array([distance(*pair) for pair in zip(UNSEEN.to_lists(), paths.to_lists(), strict=True)])


def test_one_network_heeds_each_lambda(net):
    """Side by side, each original under three λ_path: closer as it grows, and each near its own optimum."""
    lambda_path = np.repeat([0.1, 30.0, 300.0], len(UNSEEN))
    thrice = UNSEEN[np.tile(np.arange(len(UNSEEN)), 3)]
    found = net.recourse(thrice, weights(lambda_path))
    best = pprjax.exact(TASK, thrice, weights(lambda_path))
    near = (relative_gap(found.reward, best.reward) <= 0.02).reshape(3, -1)
    assert (near.mean(1) >= 0.85).all()
    distances = found.scores.distance.reshape(3, -1).mean(1)
    np.testing.assert_allclose(distances, best.scores.distance.reshape(3, -1).mean(1), atol=0.5)
    assert distances[0] > distances[1] + 0.5
    paths = found.paths.to_lists()
    changed = [paths[i] != paths[i + 2 * len(UNSEEN)] for i in range(len(UNSEEN))]
    assert np.mean(changed) > 0.5


def test_an_answer_depends_on_nothing_but_its_original(net):
    together = net.recourse(UNSEEN, weights(30.0))
    backwards = net.recourse(UNSEEN[::-1], weights(30.0))
    assert (together.reward == backwards.reward[::-1]).all()
    assert together.paths.to_lists() == backwards.paths.to_lists()[::-1]
    three = net.recourse(UNSEEN[[4, 5, 6]], weights(30.0))
    assert three.paths.to_lists() == together.paths.to_lists()[4:7]
    assert three.original_goal.tolist() == together.original_goal[4:7].tolist()


def test_what_is_saved_answers_the_same(net, tmp_path):
    net.save(tmp_path / "net")
    again = amortized.load(tmp_path / "net")
    assert (again.recourse(UNSEEN, weights(30.0)).reward == net.recourse(UNSEEN, weights(30.0)).reward).all()
    with pytest.raises(ValueError, match=r"folder: expected what Amortized\.save wrote"):
        amortized.load(tmp_path / "nothing")


def test_where_the_goal_is_out_of_reach_there_is_no_recourse(net):
    nowhere = net.replace(world=net.world.replace(met=jnp.zeros_like(net.world.met)))
    found = nowhere.recourse(UNSEEN)
    best = pprjax.exact(TASK.replace(goal=goals.ends_in(np.zeros(16, bool))), UNSEEN, weights(0.1))
    assert set(found.status) == set(best.status) == {"infeasible"}
    assert found.paths.to_lists() == best.paths.to_lists()
    assert (found.reward == -np.inf).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"goal": goals.at_least(3.0)}, r"task\.goal: .* needs a goal on the final state"),
        ({"constraints": pprjax.Constraints(forbidden_actions=[1])}, r"task\.constraints: .* without any"),
    ],
)
def test_tasks_that_it_is_not_for(changes, match):
    with pytest.raises(ValueError, match=match):
        pprjax.amortize(TASK.replace(**changes), SEEN, key=KEY)


def test_worlds_of_chance_and_foreign_starts_are_refused(net):
    transition, terminal = np.full((3, 2, 3), 1 / 3), [False, False, True]
    env = TabularMDP(reward=np.zeros((3, 2)), terminal=terminal, max_steps=3, transition=transition)
    task = pprjax.Task(env, pprjax.TablePolicy(jnp.full((3, 2), 0.5)))
    with pytest.raises(ValueError, match="expected a deterministic world"):
        pprjax.amortize(task, pprjax.Paths.from_lists([[0, 1]]), key=KEY)
    elsewhere = pprjax.Paths.from_lists([[0, 1], [5, 6]])
    with pytest.raises(ValueError, match=r"originals\[1\]: no path of this world starts with symbol 5"):
        net.recourse(elsewhere)
    with pytest.raises(ValueError, match=r"w_ins, w_del, w_sub: a network for many originals counts edits, got \(2"):
        net.recourse(pprjax.Paths.from_lists([[0, 1]]), pprjax.Config(w_ins=2.0))


@pytest.mark.slow
def test_a_log_is_answered_by_one_network_which_a_run_that_goes_on_does_not_train_again(tmp_path, monkeypatch):
    WALKS.write_csv(tmp_path / "log.csv")
    settings = CONFIG.replace(iterations=40)

    def job(name):
        options = {"read": NAMED, "fit": {"goal": "state=garden"}, "config": settings, "chunk": 16}
        return bulk.Job(tmp_path / "log.csv", tmp_path / name, method="amortized", **options)

    done = bulk.run(job("once.parquet"), progress=False)
    assert done["method"] == {"amortized": done["num_paths"] - done["status"]["met"]}
    table = pl.read_parquet(tmp_path / "once.parquet").sort("agent", "path")
    fitted = pprjax.Log.read(WALKS, **NAMED).fit("state=garden")
    best = fitted.recourse(pprjax.Log.read(WALKS, **NAMED), CONFIG)
    todo = best["status"] != "met"
    gap = relative_gap(table.filter(todo)["reward"], best.filter(todo)["reward"])
    assert gap.min() > -1e-5
    assert (gap <= 0.02).mean() >= 0.9
    assert set(table.filter(todo)["gap"]) == {None}
    network = amortized.load(tmp_path / "once.parquet.fit" / "network")

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(amortized, "amortize_log", lambda *args, **kwargs: network)
        patch.setattr(bulk, "_join", killed)
        bulk.run(job("again.parquet"), progress=False)
    chunks = sorted((tmp_path / "again.parquet.work" / "done").iterdir())
    assert len(chunks) == 2
    chunks[1].unlink()
    monkeypatch.setattr(amortized, "amortize_log", killed)
    bulk.run(job("again.parquet"), progress=False)
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "once.parquet").read_bytes()


def test_logs_that_it_is_not_for():
    log = pprjax.Log.read(WALKS, **NAMED)
    with pytest.raises(ValueError, match="goal: a network for many originals needs a goal on the final state"):
        log.fit("reward>=5").recourse(log, CONFIG, method="amortized")
    with pytest.raises(ValueError, match="method: expected a fit with a network"):
        bulk.recourse_frame(log.fit("state=garden"), next(log.frames()), method="amortized")
    slips = WALKS.with_columns(pl.when(action="forth").then(pl.lit("back")).otherwise("action").alias("action"))
    chance = pprjax.Log.read(slips, **NAMED)
    with pytest.raises(ValueError, match="method: chance decides"):
        chance.fit("state=garden").recourse(chance, CONFIG, method="amortized")
