"""What is told and drawn of Mario's players and paths, without the emulator."""

import itertools

import numpy as np
import pytest
from mario_fake import BOTH_COINS, COINS, GOAL_X, NO_COINS, PIT, all_plans
from pprjax_envs.mario import experiment
from pprjax_envs.mario import figures as mario_figures


def test_jump_shares_are_means_over_all_games(known, players):
    _, table = known
    probs = np.asarray(players["seeker"].probs, float)
    weight, jumped = np.zeros(20), np.zeros(20)
    for plan in all_plans():
        state, chance, way = 0, 1.0, []
        for action in plan:
            way.append((state, chance))
            chance *= probs[state, action]
            state = table.nodes.next_state[state, action]
        for rows, _ in way:  # a game counts with its own probability in each state on its way
            weight[table.nodes.x[rows] // 16] += chance
            jumped[table.nodes.x[rows] // 16] += chance * probs[rows, 1]
    share = mario_figures.jump_share(table, probs)
    np.testing.assert_allclose(share, (jumped / np.where(weight > 0, weight, np.nan))[: len(share)], rtol=1e-5)


def test_the_share_of_a_path_is_counted_by_position():
    x = np.array([0, 3, 15, 16, 50])
    share = mario_figures.path_share(x, [0, 1, 1, 1, 0])
    np.testing.assert_allclose(share, [2 / 3, 1, np.nan, 0])


def test_who_falls_below_the_screen_is_drawn_below_it():
    np.testing.assert_array_equal(mario_figures.unwrapped(np.array([79, 4, 255, 250])), [79, 4, -1, -6])


def test_figures_are_drawn_without_the_game(known, players, tmp_path):
    from pprjax import plotting

    _, table = known
    plan = BOTH_COINS
    play = table.play(plan)
    rows = {
        "coin seeker": mario_figures.jump_share(table, np.asarray(players["seeker"].probs)),
        "PPR": mario_figures.path_share(play.x[:-1], plan),
    }
    strip = mario_figures.jumps(rows, coins=COINS)
    assert [label.get_text() for label in strip.axes[0].get_yticklabels()] == ["coin seeker", "PPR"]
    paths = {"original": (np.array([0, PIT]), np.array([79, 79])), "seeker": (play.x, play.y)}
    level = mario_figures.level(paths, goal_x=GOAL_X, died=["original"])
    assert [text.get_text() for text in level.legends[0].get_texts()] == ["original, dies", "seeker"]
    for name, figure in (("strip", strip), ("level", level)):
        plotting.save(figure, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_cross_entropy_of_a_path_is_the_mean_over_its_states(known, players):
    _, table = known
    play = table.play(BOTH_COINS)
    plays = {"original": table.play([0] * 9), "seeker": play, "dodger": table.play(NO_COINS)}
    found = experiment.path_cross_entropy(table, players, plays)
    for recourse in ("seeker", "dodger"):
        actions = plays[recourse].actions
        states = list(itertools.accumulate(actions, lambda s, a: int(table.nodes.next_state[s, a]), initial=0))[:-1]
        for player, policy in players.items():
            probs = np.asarray(policy.probs)[states, actions]
            assert found[recourse][player] == pytest.approx(-np.log(probs).mean(), rel=1e-5)


def test_the_kl_of_policies_is_the_mean_over_all_games(known, players):
    """Of each game that there is: its probability, and log P / Q of all that is done in it."""
    _, table = known
    rows, other = (np.asarray(players[player].probs, float) for player in ("seeker", "dodger"))
    chances, steps, divergence = 0.0, 0.0, 0.0
    for plan in all_plans():
        way = list(itertools.accumulate(plan, lambda s, a: int(table.nodes.next_state[s, a]), initial=0))[:-1]
        chance = rows[way, list(plan)].prod()
        chances += chance
        steps += chance * len(plan)
        divergence += chance * np.log(rows[way, list(plan)] / other[way, list(plan)]).sum()
    assert chances == pytest.approx(1)
    found = experiment.policy_kl(table, players)
    assert found["seeker"]["dodger"] == pytest.approx(divergence / steps, rel=1e-4)
    assert found["seeker"]["seeker"] == found["dodger"]["dodger"] == 0
    assert found["dodger"]["seeker"] > 0


def test_the_rows_of_the_strips_say_what_they_are(known, players):
    _, table = known
    plays = {"pit": {"seeker": table.play(BOTH_COINS), "dodger": table.play(NO_COINS)}}
    probs = {player: np.asarray(policy.probs) for player, policy in players.items()}
    rows = mario_figures.strips(table, probs, plays)
    assert list(rows) == [
        "coin seeker: probability", "pit, for the seeker: jumps made",
        "coin dodger: probability", "pit, for the dodger: jumps made",
    ]  # fmt: skip
    np.testing.assert_array_equal(rows["coin dodger: probability"], mario_figures.jump_share(table, probs["dodger"]))
    made = rows["pit, for the seeker: jumps made"]
    np.testing.assert_array_equal(np.flatnonzero(made == 1), [i for i, a in enumerate(BOTH_COINS) if a])
