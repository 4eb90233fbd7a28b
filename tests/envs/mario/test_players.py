"""Players who learn by search, and recourse by turns, in a small game in place of the emulator."""

import dataclasses
import functools
import itertools

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from mario_fake import FLAG, GOAL_X, NO_COINS, PIT, STEPS, TRAINING, Hopper, all_plans, simulate, world
from pprjax_envs import mario
from pprjax_envs.mario import agents as mario_agents
from pprjax_envs.mario import experiment, fitted, labels, play, turns
from pprjax_envs.mario import explorer as mario_explorer
from pprjax_envs.mario import table as mario_table

import pprjax


def worth(after, actions):
    return after.reward + 7.0 * after.coins - (actions == 1)


def earned(plan):
    return sum(reward + 7.0 * coins for _, coins, reward in simulate(Hopper(), plan)) - sum(plan)


def best_of_a_table(env, taken):
    """The largest sum of `worth` over the games through these steps that get beyond the goal."""
    nodes, reached = env.explorer.nodes, mario_table.reached(env.explorer.nodes, GOAL_X)

    @functools.cache
    def best(node):
        if reached[node]:
            return 0.0
        ways = [(a, int(nodes.next_state[node, a])) for a in range(2) if (node, a) in taken]
        return max((nodes.reward[node, a] + 7.0 * nodes.coins[node, a] - a + best(n) for a, n in ways), default=-np.inf)

    return best(0)


def test_a_wide_beam_finds_the_best_game_and_a_narrow_one_some():
    wanted = max(earned(plan) for plan in all_plans() if simulate(Hopper(), plan)[-1][0] > GOAL_X)
    found, played = {}, {}
    for width in (2, 50):
        env = world(game=lambda: Hopper(2))
        taken = play.beams(env.explorer, np.array([0]), worth, goal_x=GOAL_X, width=width, steps=STEPS)
        found[width], played[width] = best_of_a_table(env, taken), env.explorer.played
        assert len(taken) >= env.explorer.played  # none is told twice, and none is kept back
    assert found[50] == wanted
    assert -np.inf < found[2] <= wanted
    assert played[2] < played[50]


def test_beams_take_their_steps_from_their_roots():
    env = world(game=lambda: Hopper(4))
    way = [0]
    for action in [0, 0, 0]:
        way.append(int(env.explorer.step(np.array(way[-1:]), np.array([action])).node[0]))
    taken = play.beams(env.explorer, np.array(way[2:]), worth, goal_x=GOAL_X, width=1, steps=2)
    x = env.explorer.nodes.x
    assert {int(x[node]) for node, _ in taken} == {32, 48, 64}
    assert [node for node, _ in taken][:4] == [way[2], way[2], way[3], way[3]]


def test_games_stop_where_they_are_over_and_who_is_stuck_has_failed():
    class Wall(Hopper):
        def act(self, action):
            before = self.state
            result = super().act(action)
            if self.state[0] > 48:
                self.state = (48, *before[1:3], (*before[3], action))
            return result

        def facts(self):
            return super().facts()._replace(features=np.zeros(20, np.float32))

    def right(seen, t):
        return np.zeros(len(seen.x), int)

    env = world(game=Wall, max_steps=60)
    stuck = play.games(env.explorer, right, np.array([0, 0]), goal_x=GOAL_X, steps=60)
    assert len(stuck.actions) == 3 + play.STUCK
    way, _ = stuck.way(0)
    assert play.failures(env.explorer, stuck, GOAL_X, (0, 2)) == [way[3], way[1]]
    env = world()
    fell = play.games(env.explorer, right, np.array([0]), goal_x=GOAL_X, steps=60)
    way, actions = fell.way(0)
    assert len(actions) == PIT // 16 and (fell.actions[len(actions) :] < 0).all()
    assert play.failures(env.explorer, fell, GOAL_X, (2, 99)) == [way[-3], 0]
    assert list(fell.steps()) == list(zip(way[:-1], actions, strict=True))
    plan = NO_COINS
    won = play.games(env.explorer, lambda seen, t: np.array([plan[t]]), np.array([0]), goal_x=GOAL_X, steps=60)
    assert play.failures(env.explorer, won, GOAL_X, (2,)) == []


def test_what_steps_are_worth_is_backed_up_from_their_ends(known):
    """Against every game there is, and V of a node from which nothing was taken."""
    env, _ = known
    nodes, gamma = env.explorer.nodes, 0.9
    taste = mario_agents.Taste(coin=7.0, effort=1.0)
    beyond = np.full(len(nodes.x), 50.0)
    taken = nodes.next_state >= 0
    ended = mario_table.reached(nodes, GOAL_X) | (nodes.flags & mario_explorer.DONE > 0)
    cut = int(np.flatnonzero((nodes.x == 128) & ~ended)[0])
    taken[cut] = False
    q = fitted.backed_up(nodes, taken, taste.of_nodes(nodes), beyond, goal_x=GOAL_X, gamma=gamma)
    assert (q[cut] == -np.inf).all() and (q[ended] == -np.inf).all()
    best = np.full(q.shape, -np.inf)
    for plan in all_plans():
        way = list(itertools.accumulate(plan, lambda s, a: int(nodes.next_state[s, a]), initial=0))
        value = 0.0
        for node, action in reversed(list(zip(way[:-1], plan, strict=True))):
            if node == cut:
                value = 50.0
                continue
            reward = nodes.reward[node, action] + 7.0 * nodes.coins[node, action] - action
            value = reward + gamma * value
            best[node, action] = max(best[node, action], value)
    np.testing.assert_allclose(q, best, rtol=1e-5)


@pytest.mark.slow
def test_every_setting_of_the_training_changes_the_player(known):
    _, table = known
    changes = dict(
        rounds=1, num_paths=3, warm=0, first_width=1, beams=1, width=1, depth=2, updates=200, batch_size=32, gamma=0.5,
        learning_rate=1e-3, effort=9.0, doubt=0.0, temperature=9.0, temperatures=(9.0,), slip=0.3, units=32, layers=1,
    )  # fmt: skip
    assert set(changes) == {field.name for field in dataclasses.fields(fitted.Training)}

    def probs(**change):
        policy = mario_agents.train(world(game=lambda: Hopper(6)), "seeker", dataclasses.replace(TRAINING, **change))
        return np.asarray(policy.table(table).probs)

    usual = probs()
    np.testing.assert_array_equal(usual, probs())
    for name, value in changes.items():
        assert np.abs(probs(**{name: value}) - usual).max() > 1e-4, name


class Margins:
    """In place of a network: by how much walking is better than jumping, for each x that the small game has."""

    num_actions = 2

    def apply(self, params, observation, position, time):
        margin = params @ observation[:16]
        return fitted.SCALE * jnp.stack([margin, 0 * margin])


def margins(env, **rows):
    """A player who would rather walk by 1, but by other margins at these x: x48=100 walks there."""
    params = np.ones(16, np.float32)
    for where, margin in rows.items():
        params[int(where[1:]) // 16] = margin
    return mario_agents.NetworkPolicy(jnp.asarray(params), jnp.float32(1.0), jnp.float32(0.02), env, Margins())


SURE = dict(x48=100.0, x80=-100.0)  # jumps over the pit, which who is still in the air can't


@pytest.mark.parametrize(
    ("player", "temperatures", "chosen"),
    [
        (SURE, (1e4, 1.0, 0.25, 0.1), 0.25),  # falls, then dithers; and is no sharper than it need be
        (SURE, (0.1, 0.05), 0.1),
        (SURE | dict(x80=-0.2), (0.25, 0.02), 0.02),  # has made up its mind but at the edge, and falls
        (dict(x80=-0.2), (0.25, 0.1), 0.1),  # none is enough: the most games
        (dict(x80=100.0), (1.0, 0.25, 0.1), 0.25),  # of equals that made up their mind the softest
        (SURE, (1e4, 1.0), 1.0),  # none has made up its mind
    ],
)
def test_the_temperature_is_the_softest_at_which_a_player_gets_through_and_has_made_up_its_mind(
    player, temperatures, chosen
):
    env = world()
    policy = margins(env, **player)
    sharpened = mario_agents.sharpened(env, policy, temperatures, np.random.default_rng(0), warm=0)
    assert float(sharpened.temperature) == pytest.approx(chosen)


def test_games_that_try_a_player_start_evenly():
    env = world()
    through = {}
    for warm in (0, 7):  # which is past the pit
        played = mario_agents.trials(env, margins(env, **SURE), np.random.default_rng(0), warm=warm)
        through[warm] = int(mario_table.reached(play.look(env.explorer, played.nodes[-1]), GOAL_X).sum())
    assert through[7] < mario_agents.ENOUGH <= through[0]


def test_what_nobody_played_on_is_doubted_and_told_from_nothing(monkeypatch):
    """Two steps to the right: the first leads on, and after the second the network says 1."""
    env, shown = world(), []
    monkeypatch.setattr(mario_agents, "fit", lambda network, params, known, *rest, **more: shown.append(known))
    after = int(env.explorer.step(np.array([0]), np.array([0])).node[0])
    env.explorer.step(np.array([after]), np.array([0]))
    training = fitted.Training(gamma=0.9, doubt=5.0)
    last = 16 + 0.9 * (1 - 5)
    for trusted, values in ((True, [16 + 0.9 * last, last]), (False, [16 + 0.9 * 16, 16])):
        mario_agents._fitted(
            env, margins(env), dict.fromkeys([(0, 0), (after, 0)]), taste=mario_agents.Taste(7.0, 1.0),
            training=training, key=None, trusted=trusted,
        )  # fmt: skip
        known = shown.pop()
        assert int(known.count) == len(values)
        np.testing.assert_array_equal(known.known[: len(values)], [[True, False]] * len(values))
        np.testing.assert_array_equal(known.guessed[: len(values), 0], [False, trusted])
        np.testing.assert_allclose(known.value[: len(values), 0], fitted.SCALE * np.array(values), rtol=1e-5)


def test_a_guess_is_no_difference_between_actions():
    """The loss with a guessed step is that of the values alone, and the less the nearer they are."""
    env = world()
    policy = margins(env)
    nodes = env.explorer.nodes
    own = np.asarray(policy.values(nodes.features[0]))
    q = np.tile(np.add(own, [0.0, 6.0]), (len(nodes.x), 1))

    def loss(guessed):
        known = fitted.labels(nodes, np.array([0]), q, np.tile(guessed, (len(nodes.x), 1)))
        return float(fitted._loss(policy.params, policy.network, known, jnp.zeros(4, int)))

    error = fitted.SCALE * 6.0
    assert loss([False, True]) == pytest.approx(0.5 * error**2 / 2, rel=1e-4)
    assert loss([False, False]) == pytest.approx(0.5 * error**2 / 2 + fitted.GAPS * 0.5 * error**2, rel=1e-4)


def test_the_end_of_a_game_is_learned(monkeypatch):
    """A fall, from which nobody plays on either."""
    env, shown = world(), []
    monkeypatch.setattr(mario_agents, "fit", lambda network, params, known, *rest, **more: shown.append(known))
    played = play.games(env.explorer, lambda seen, t: np.zeros(1, int), np.array([0]), goal_x=GOAL_X, steps=STEPS)
    mario_agents._fitted(
        env, margins(env), played.steps(), taste=mario_agents.Taste(7.0, 1.0), training=fitted.Training(gamma=0.0),
        key=None,
    )  # fmt: skip
    assert int(shown[0].count) == PIT // 16
    falls = [16.0] * (PIT // 16 - 1) + [16.0 - 31.0]
    np.testing.assert_allclose(shown[0].value[: PIT // 16, 0], fitted.SCALE * np.array(falls), rtol=1e-5)


def test_the_entropy_of_games_is_that_of_the_states_they_act_in():
    env = world()
    policy = margins(env, x80=-3.0)
    played = play.games(
        env.explorer, lambda seen, t: np.zeros(len(seen.x), int), np.zeros(2, int), goal_x=GOAL_X, steps=9
    )
    walked, edge = (0.98 / (1 + np.exp(-margin)) + 0.01 for margin in (1.0, 3.0))  # five states, and a sixth
    wanted = [[walked, 1 - walked]] * 5 + [[1 - edge, edge]]
    probs = mario_agents.acted(env, policy, played)
    np.testing.assert_allclose(probs[::2], wanted, rtol=1e-5)
    entropy = -np.sum(np.array(wanted) * np.log(wanted)) / 6
    assert mario_agents.mean_entropy(probs) == pytest.approx(entropy, rel=1e-5)


@pytest.fixture(scope="module")
def walkers():
    """Both players, trained a little in a game whose states tell the last actions apart."""
    env = world(game=lambda: Hopper(12))
    return {player: mario_agents.train(env, player, TRAINING) for player in ("seeker", "dodger")}


def hopper_with(trained):
    """A new game whose states tell the last actions apart, both players in it, and a game that falls into the pit."""
    env = world(game=lambda: Hopper(12))
    players = {player: dataclasses.replace(policy, env=env) for player, policy in trained.items()}
    return env, players, env.play([0] * STEPS)


@pytest.mark.parametrize("own_steps", ["charged", "free"])
def test_recourse_by_turns_is_the_best_path_through_all_that_was_explored(walkers, own_steps):
    env, players, fell = hopper_with(walkers)
    originals = {"pit": mario.Original("falls", ((0, STEPS),), GOAL_X)}
    rows, rungs = experiment.recourses(
        env, players, originals, {"pit": fell}, lambda_path=10.0, lambda_policy=1.0, calls=60, own_steps=own_steps
    )
    assert env.explorer.played >= 60
    plays = experiment.recourse_plays(env, rows, {"pit": fell})["pit"]
    table = env.explored(goal_x=GOAL_X)
    for player, policy in players.items():
        row = rows.row(by_predicate=pl.col("player") == player, named=True)
        best = max(
            value + 10.0 / (d + 1) for d, value in every_way(table, regrets(policy, table), fell, 1.0, own_steps)
        )
        assert row["reward"] == pytest.approx(best, rel=1e-5)
        assert row["value"] == pytest.approx(row["s_goal"] + row["r_policy"], rel=1e-5)
        assert row["survives"] and plays[player].x[-1] > GOAL_X
        ladder = rungs.filter(player=player)
        assert row["reward"] == pytest.approx((ladder["value"] + 10.0 / (ladder["distance"] + 1)).max(), rel=1e-6)
    coins = {player: int(plays[player].coins.sum()) for player in players}
    assert coins["dodger"] <= coins["seeker"]


def regrets(policy, table):
    """The charges of a player where all actions are there, tried or not."""
    charges = -np.log(np.asarray(policy.table(table).probs, float))
    return charges - charges.min(1, keepdims=True)


def every_way(table, charges, original, lambda_policy, own_steps="charged"):
    """Edits and v of each way to the goal through what was explored, one by one."""
    found, symbols = [], []
    for plan in all_plans():
        played = table.play(plan)
        if len(played.actions) < len(plan) or played.x[-1] <= GOAL_X:
            continue
        way = list(itertools.accumulate(plan, lambda s, a: int(table.nodes.next_state[s, a]), initial=0))
        paid = charges[way[:-1], list(plan)]
        if own_steps == "free":
            own = set(itertools.pairwise(original.symbols))
            paid = [
                charge * (step not in own)
                for charge, step in zip(paid, itertools.pairwise(played.symbols), strict=True)
            ]
        found.append(played.reward.sum() - lambda_policy * np.sum(paid))
        symbols.append(played.symbols)
    return list(zip(np.asarray(pprjax.levenshtein(np.array(original.symbols), np.array(symbols))), found, strict=True))


@pytest.mark.parametrize(("memory", "games"), [(12, 60), (0, 60), (2, 40)])
def test_the_frontier_by_labels_is_that_of_all_ways(memory, games):
    """In a tree, and where ways meet again."""
    env = world(game=lambda: Hopper(memory))
    rng = np.random.default_rng(0)
    for _ in range(games):
        env.play(rng.integers(0, 2, STEPS).tolist())
    fell = env.play([0] * STEPS)
    table = env.explored(goal_x=GOAL_X)
    charges = rng.exponential(3.0, (table.num_states, 2))
    charges -= charges.min(1, keepdims=True)
    best = {}
    for d, value in every_way(table, charges, fell, 2.0):
        best[int(d)] = max(value, best.get(int(d), -np.inf))
    rises = [d for d in sorted(best) if all(best[d] > best[e] + 1e-4 for e in best if e < d)]
    rungs = labels.frontier_of(table, charges, np.array(fell.symbols), lambda_policy=2.0)
    assert [rung.distance for rung in rungs] == rises and len(rises) > 1
    np.testing.assert_allclose([rung.value for rung in rungs], [best[d] for d in rises], rtol=1e-5)
    for rung in rungs:
        assert table.play(rung.actions).x[-1] > GOAL_X


def test_more_turns_find_better_paths_and_none_is_lost(walkers):
    env, players, fell = hopper_with(walkers)
    settings = dict(goal_x=GOAL_X, lambda_path=10.0, lambda_policy=1.0)
    found = turns.play_on(env, players["seeker"], fell, calls=500, **settings)
    assert len(found) > 1
    assert found == sorted(found) and found[-1] > -np.inf
    known = env.explorer.played
    assert turns.play_on(env, players["seeker"], fell, calls=0, **settings) == []
    assert env.explorer.played == known
    env, players, fell = hopper_with(walkers)
    strange = dataclasses.replace(fell, actions=[0, 0, 2, 0])  # what the player's game lacks ends what it knows of it
    assert len(turns.play_on(env, players["seeker"], strange, calls=1, **settings)) == 1


def test_an_original_without_a_way_to_its_goal_is_named(walkers):
    env, players, fell = hopper_with(walkers)
    originals = {"pit": mario.Original("falls", ((0, STEPS),), 10 * FLAG)}
    env.explorer._table.flags[:] &= ~mario_explorer.CLEARED
    with pytest.raises(ValueError, match=r"pit: expected a path beyond x = 2400, found none for the seeker"):
        experiment.recourses(env, players, originals, {"pit": fell}, lambda_path=1.0, lambda_policy=1.0, calls=0)
