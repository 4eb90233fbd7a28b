"""Small random worlds, and every path through them: what certificates are compared with."""

import functools
import itertools

import numpy as np
from hypothesis import strategies as st

from pprjax import TabularMDP
from pprjax.goals import at_least, improved, reached
from pprjax.policy import TablePolicy
from pprjax.reward import link
from pprjax.task import Task

S, A, HORIZON = 5, 3, 5  # small enough to look at every path: at most 3^5
UNEVEN = dict(w_ins=2.0, w_del=1.0, w_sub=3.0)
lambdas = st.sampled_from([0.0, 0.05, 0.5, 3.0, 40.0])


def ends_on_an_even_state_in_profit(state, r_goal):
    return (state.id % 2 == 0) & (r_goal > 0)


GOALS = {
    "none": None,
    "reached": reached,
    "at_least": at_least(1.0),
    "improved": improved,
    "condition": ends_on_an_even_state_in_profit,
}


class Mdp:
    """A small random world, and every path through it."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.next_state = rng.integers(0, S, (S, A))
        self.next_state[rng.random((S, A)) < 0.25] = -1  # dead ends included
        self.reward = rng.integers(-3, 4, (S, A)) / 2  # few values: ties, and R_goal exact
        self.terminal = rng.random(S) < 0.3
        self.terminal[0] = False
        self.symbols = rng.integers(3, 3 + rng.integers(2, S + 1), S)  # some states look the same
        probs = rng.dirichlet(np.full(A, 0.7), S)
        probs[rng.random(S) < 0.3] = np.eye(A)[rng.integers(A)]  # h at its clips
        self.probs = probs.astype(np.float32)
        self.habit = ("regret", "link")[seed % 2]
        self.originals = []
        for _ in range(3):
            path = [0]
            while len(path) < rng.integers(1, HORIZON + 3):  # some longer than the horizon
                usable = self.usable(path[-1])
                if not len(usable) or rng.random() < 0.1:
                    path.append(int(rng.integers(S)))  # and some that no walk follows
                else:
                    path.append(int(self.next_state[path[-1], rng.choice(usable)]))
            self.originals.append([int(self.symbols[s]) for s in path])

    def usable(self, state):
        return np.flatnonzero((self.next_state[state] >= 0) & ~self.terminal[state])

    def task(self, goal):
        env = TabularMDP(self.next_state, self.reward, self.terminal, 0, HORIZON, self.symbols)
        return Task(env, TablePolicy(self.probs), goal=goal)

    @functools.cached_property
    def habits(self):
        """What each action adds to R_policy, as printed: h(p), or the regret."""
        return np.asarray(link(self.probs, A), float) if self.habit == "link" else self.regrets

    @functools.cached_property
    def regrets(self):
        """log P_A less that of the favourite among the actions that there are."""
        valid = (self.next_state >= 0) & ~self.terminal[:, None]
        logs = np.log(np.maximum(self.probs.astype(float), 1e-30))
        best = np.max(logs, axis=1, where=valid, initial=-np.inf, keepdims=True)
        return np.where(valid, logs - np.where(valid.any(1, keepdims=True), best, 0.0), 0.0)

    def paths_beside(self, original, own_steps):
        """The same as edits of an original, with steps between its neighbouring symbols free or charged."""
        own = set(itertools.pairwise(original)) if own_steps == "free" else ()
        for (states, goal, _, log), charges in zip(self.paths, self.charges, strict=True):
            moves = itertools.pairwise(self.symbols[list(states)].tolist())
            yield states, goal, sum(h for move, h in zip(moves, charges, strict=True) if move not in own), log

    @property
    def paths(self):
        """(states, R_goal, R_policy, Σ log P_A) of every path."""
        return self._paths[0]

    @property
    def charges(self):
        """What each step of each of these paths adds to R_policy."""
        return self._paths[1]

    @functools.cached_property
    def _paths(self):
        h = self.habits
        with np.errstate(divide="ignore"):
            log_prob = np.log(self.probs.astype(float))
        found, charges, open_paths = [], [], [((0,), 0.0, (), 0.0)]
        while open_paths:
            states, goal, habits, log = open_paths.pop()
            s = states[-1]
            if len(states) == HORIZON + 1 or not len(self.usable(s)):
                found.append((states, goal, sum(habits), log))
                charges.append(habits)
                continue
            for a in self.usable(s):
                after = (*states, int(self.next_state[s, a]))
                open_paths.append((after, goal + self.reward[s, a], (*habits, h[s, a]), log + log_prob[s, a]))
        return found, charges

    def own_reward(self, original):
        """R_goal of the likeliest walk that spells the original, of equally likely ones the best; -inf: none does."""
        never = self.probs == 0
        log_prob = np.where(never, 0.0, np.log(np.where(never, 1.0, self.probs.astype(float))))
        walks = [(0, 0, 0.0, 0.0)] if self.symbols[0] == original[0] else []
        for symbol in original[1:]:
            walks = [
                (last, luck - never[s, a], likely + log_prob[s, a], goal + self.reward[s, a])
                for s, luck, likely, goal in walks
                for a in self.usable(s)
                if self.symbols[last := int(self.next_state[s, a])] == symbol
            ]
        return max(((luck, round(likely, 5), goal) for _, luck, likely, goal in walks), default=(0, 0, -np.inf))[2]

    def meets(self, name, state, goal, original):
        return {
            "none": True,
            "reached": self.terminal[state],
            "at_least": goal >= 1.0,
            "improved": self.terminal[state] and goal > self.own_reward(original),
            "condition": state % 2 == 0 and goal > 0,
        }[name]

    def best(self, name, original, lambda_path, lambda_policy, costs):
        """max R by looking at every path; -inf where none meets the goal."""
        return max(
            (
                goal + lambda_policy * habit + lambda_path / (1 + edit(original, self.symbols[list(states)], costs))
                for states, goal, habit, _ in self.paths
                if self.meets(name, states[-1], goal, original)
            ),
            default=-np.inf,
        )


def edit(original, path, costs):
    """Wagner and Fischer's recurrence, as printed."""
    insert, delete, substitute = costs.get("w_ins", 1), costs.get("w_del", 1), costs.get("w_sub", 1)
    row = [delete * i for i in range(len(original) + 1)]
    for t, symbol in enumerate(path, 1):
        above, row = row, [insert * t]
        for i, wanted in enumerate(original, 1):
            read = above[i - 1] + (0 if wanted == symbol else substitute)
            row.append(min(read, above[i] + insert, row[-1] + delete))
    return row[-1]


def count(rules, symbols, actions, original, kept, costs):
    """Violations, as the words say."""
    moves = list(itertools.pairwise(symbols))
    left = iter(symbols)
    return (
        sum(s in rules.get("forbidden_states", ()) for s in symbols)
        + sum(a in rules.get("forbidden_actions", ()) for a in actions)
        + sum(move in rules.get("forbidden_transitions", ()) for move in moves)
        + max(edit(original, symbols, costs) - rules.get("max_distance", np.inf), 0)
        + max(len(symbols) - rules.get("max_length", np.inf), 0)
        + sum(original[i] not in left for i in kept)
    )


def every_path(mdp, rules):
    """(states, actions) of every path without a forbidden action, state, transition or regret, and not too long."""
    horizon = min(HORIZON, rules.get("max_length", np.inf) - 1)
    look = mdp.symbols

    def choices(s):
        after = {a: mdp.next_state[s, a] for a in mdp.usable(s)}
        return [
            a
            for a, n in after.items()
            if a not in rules.get("forbidden_actions", ())
            and look[n] not in rules.get("forbidden_states", ())
            and (look[s], look[n]) not in rules.get("forbidden_transitions", ())
            and -mdp.regrets[s, a] <= rules.get("max_regret", np.inf) + 1e-4
        ]

    open_paths = [((0,), ())]
    while open_paths:
        states, actions = open_paths.pop()
        able = choices(states[-1])
        if len(actions) == horizon or not able:
            yield states, actions
        open_paths += [
            ((*states, int(mdp.next_state[states[-1], a])), (*actions, int(a)))
            for a in (able if len(actions) < horizon else ())
        ]


def worth(mdp, states, actions, original, lambda_path, lambda_policy, costs):
    h = mdp.habits
    earned = sum(mdp.reward[s, a] for s, a in zip(states, actions, strict=False))
    habit = sum(h[s, a] for s, a in zip(states, actions, strict=False))
    distance = edit(original, mdp.symbols[list(states)], costs)
    return earned, earned + lambda_policy * habit + lambda_path / (1 + distance)


def feasible(mdp, goal, rules, keep, original, lambda_path, lambda_policy, costs):
    """(R, symbols) of every feasible path, the best first."""
    found = []
    for states, actions in every_path(mdp, rules):
        symbols = mdp.symbols[list(states)].tolist()
        earned, value = worth(mdp, states, actions, original, lambda_path, lambda_policy, costs)
        if mdp.meets(goal, states[-1], earned, original) and not count(rules, symbols, actions, original, keep, costs):
            found.append((value, tuple(symbols)))
    return sorted(found, reverse=True)


def greedy(ranked, count, min_distance):
    """The best, then the best that is far enough from it, and so on: all that could be next if tied."""
    chosen = []
    for value, symbols in ranked:
        if all(edit(symbols, other, {}) >= min_distance for _, other in chosen):
            chosen.append((value, symbols))
    return chosen[:count]
