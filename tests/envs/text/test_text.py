"""Text as a world: corpora, the transformer and its cache, the rules, and recourse against brute force."""

import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import polars.testing
import pytest
from benches import bench
from pprjax_envs import text
from pprjax_envs.sequence import SymbolOnly
from pprjax_envs.text import agents, command, experiment, tables
from pprjax_envs.text import corpus as text_corpus
from pprjax_envs.text.experiment import Judges
from text_fake import Likes, V, chain, world
from tiny_author import LANGUAGE, SHAPE, SMALL

import pprjax
from pprjax.ladder import Wanted
from pprjax.scoring import score
from pprjax.search import points
from pprjax.search.points import search_points

CONFIG = pprjax.Config(lambda_policy=0.3)


def every_path(task):
    """All complete sentences that the world lets one write, as paths."""
    env, params = task.env, task.params
    step = jax.jit(env.step_env)
    ended, open_ = [], [(task.reset(jax.random.key(0)), [V], [])]
    while open_:
        state, symbols, actions = open_.pop()
        for action in np.flatnonzero(env.available(state, params)):
            _, after, _, terminated, _ = step(jax.random.key(0), state, action, params)
            path = after, [*symbols, int(env.symbol(after, params))], [*actions, int(action)]
            (ended if terminated else open_).append(path)
    return pprjax.Paths.from_lists([symbols for _, symbols, _ in ended], [actions for _, _, actions in ended])


@pytest.mark.parametrize("habit", ["regret", pytest.param("link", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed, towards", [(0, "positive"), (1, "negative")])
def test_the_frontier_is_the_best_of_all_sentences(seed, towards, habit):
    task = world(seed, towards=towards)
    originals, config = text.paths(task, ["aca", "bab"]), CONFIG.replace(habit=habit)
    paths = every_path(task)
    assert len(paths) == 4 + 4**2 + 4**3
    found = pprjax.frontier(task, originals, config, calls=0)
    for i in range(2):
        scores = score(task, originals[[i] * len(paths)], paths, config)
        met = Likes().reached(Likes()(text.texts(task, paths)), towards)
        value = np.where(met, scores.goal + 0.3 * scores.r_policy, -np.inf)
        best = [value[scores.distance <= e].max(initial=-np.inf) for e in range(4)]
        known = np.full(4, -np.inf)
        known[found.distance[found.index == i]] = found.value[found.index == i]
        np.testing.assert_allclose(np.maximum.accumulate(known), best, rtol=1e-4, atol=1e-5)
    for lambda_path in (0.1, 3.0):
        one = pprjax.recourse(task, originals, config.replace(lambda_path=lambda_path), calls=0)
        np.testing.assert_allclose(one.reward, found.at(lambda_path).reward, rtol=1e-4)


@pytest.mark.parametrize("habit", [pytest.param("regret", marks=pytest.mark.slow), "link"])
def test_a_plain_beam_that_keeps_every_prefix_finds_the_best_too(habit):
    """The rival of bench/text.py."""
    task, config = world(1, towards="negative"), CONFIG.replace(habit=habit, lambda_path=3.0)
    original = text.paths(task, ["bab"])
    best = pprjax.recourse(task, original, config, calls=0)
    reward, tokens = bench("plain_beam").beam_search(task, original, config, width=4**3, weight=0.0)
    assert reward == pytest.approx(best.reward[0], rel=1e-5)
    assert [V, *tokens, 0] == best.paths.to_lists()[0]


def test_what_is_offered_are_the_words_and_an_end_after_the_first():
    task = world(3)
    env, params = task.env, task.params
    state = task.reset(jax.random.key(0))
    assert np.flatnonzero(env.available(state, params)).tolist() == [1, 2, 3, 4]  # no empty sentence
    state = env.step_env(jax.random.key(0), state, 1, params)[1]
    assert np.flatnonzero(env.available(state, params)).tolist() == [0, 1, 2, 3, 4]
    for action in (1, 1):
        state = env.step_env(jax.random.key(0), state, action, params)[1]
    assert np.flatnonzero(env.available(state, params)).tolist() == [0]  # room for nothing but the end


def test_an_end_is_taken_from_every_prefix_however_unlikely_it_is():
    """Two nodes a layer would never hold an end that costs 20 nats more than a word."""

    class LikesOne(Likes):
        def __call__(self, texts):
            return np.array([0.9 if text == "b" else 0.5 for text in texts])

    task, agent = world(0, judge=LikesOne()), chain(0)
    task = task.replace(policy=agent.replace(logits=agent.logits.at[:, 0].add(-20.0)))
    found = search_points(
        task, text.paths(task, ["bc"]), CONFIG.objective.for_frontier, wanted=Wanted(num_distances=2), calls=0, width=1
    )
    assert np.isneginf(found.best.value[0, 0]) and found.best.symbols[0, 1].tolist() == [V, 1 + 1, 0, -1, -1]


def test_each_prefix_is_judged_once_and_an_end_pays_what_was_found():
    asked = []

    class Counting(Likes):
        def __call__(self, texts):
            asked.extend(texts)
            return super().__call__(texts)

    task = world(0, judge=Counting())
    env, params, key = task.env, task.params, jax.random.key(0)
    state = task.reset(key)
    for i, letter in enumerate("bab"):
        state = env.step_env(key, state, 1 + "abcd".index(letter), params)[1]
        so_far = Likes()(["bab"[: i + 1]])
        np.testing.assert_allclose(env.promise(state, params), 2 * so_far[0], rtol=1e-6)
    _, state, reward, terminated, _ = env.step_env(key, state, 0, params)
    assert terminated and bool(env.reached_goal(state, params)) and asked == ["b", "ba", "bab"]
    np.testing.assert_allclose(reward, Likes()(["bab"])[0], rtol=1e-6)


def test_the_original_leads_along_its_own_words_and_edits_count_words():
    task = world(1, max_words=5)
    original = text.paths(task, ["acd"])
    assert original.to_lists() == [[V, 1, 3, 4, 0]]
    scores = score(task, original, original)
    assert scores.distance.tolist() == [0]
    model = chain(1).logits
    logs = jax.nn.log_softmax(model, axis=-1)
    expected = np.mean([logs[i, j] for i, j in itertools.pairwise([V, 1, 3, 4, 0])])
    np.testing.assert_allclose(scores.policy, [expected], rtol=1e-5)
    np.testing.assert_allclose(scores.goal, Likes()(["acd"]), rtol=1e-6)
    assert text.texts(task, original) == ["acd"]


def test_a_word_is_liked_where_it_is_likelier_than_one_drawn_from_the_whole_vocabulary():
    task = world(0, size=40)
    original = text.paths(task, ["aca"])
    scores = score(task, original, original, CONFIG.replace(habit="link"))
    logs = jax.nn.log_softmax(chain(0).logits, axis=-1)
    probs = np.exp([logs[i, j] for i, j in itertools.pairwise([V, 1, 3, 1, 0])])
    np.testing.assert_allclose(scores.r_policy, [sum(float(pprjax.link(p, 40)) for p in probs)], rtol=1e-4)


def test_worlds_of_one_size_share_a_program_and_keep_their_own_model_and_judge():
    class Dislikes(Likes):
        def __call__(self, texts):
            return 1 - super().__call__(texts)

    one, other = world(0), world(4, judge=Dislikes())
    assert one.env == other.env and hash(one.env) == hash(other.env)
    originals = text.paths(one, ["aca", "bcb", "aca"])
    found = pprjax.frontier(pprjax.stack([one, other, one]), originals, CONFIG, calls=0)
    for i, (task, judge) in enumerate(zip((one, other, one), (Likes(), Dislikes(), Likes()), strict=True)):
        own = found.paths[np.flatnonzero(found.index == i)]
        alone = pprjax.frontier(task, originals[[i]], CONFIG, calls=0)
        assert own.to_lists() == alone.paths.to_lists()
        np.testing.assert_allclose(alone.scores.goal, judge(text.texts(task, alone.paths)), rtol=1e-6)


def test_what_the_judge_raises_is_raised_outside(author):
    class Broken(Likes):
        def __call__(self, texts):
            if texts[0] != "a b":
                raise ZeroDivisionError("no mood today")
            return super().__call__(texts)

    task = world(0, judge=Broken())
    task.env.check()
    with pytest.raises(ZeroDivisionError, match="no mood today"):
        experiment.ladders([author], [("a b", None)], Judges(asked=Broken(), other=Likes()))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(towards="funny"), "towards: expected positive or negative, got 'funny'"),
        (dict(max_words=0), "max_words: expected at least 1, got 0"),
    ],
)
def test_a_bad_world_is_an_error_that_names_the_argument(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        world(**options)
    with pytest.raises(ValueError, match="sentence: expected 1 to 2 words, got 3 in 'aca'"):
        text.paths(world(max_words=2), ["ab", "aca"])


def test_a_step_with_the_cache_is_the_full_pass(author):
    words = author.vocabulary
    tokens = np.concatenate([[words.size], words.encode(["a", "b", "c", "d", "e", "f", "a", "h"])])
    zeros = np.zeros(len(tokens), int)
    logits = jax.jit(author.policy.network.apply)(author.policy.params, tokens, np.arange(len(tokens)), zeros)
    expected = jax.nn.log_softmax(jnp.where(author.policy.known, logits, -jnp.inf))
    carry, step = author.policy.init(), jax.jit(type(author.policy).step)
    for token, row in zip([words.num_tokens, *tokens[1:]], expected, strict=True):
        carry, log_probs = step(author.policy, carry, SymbolOnly(jnp.int32(token)))
        known = np.isfinite(log_probs[: words.size])
        np.testing.assert_allclose(log_probs[: words.size][known], row[known], atol=1e-5)


def test_a_word_that_joined_is_one_of_the_rare_ones(author):
    words, policy = author.vocabulary, author.policy
    rare = policy.replace(log_rare=policy.log_rare + jnp.log(jnp.float32(4.0)))
    one, four = (p.step(p.init(), SymbolOnly(jnp.int32(words.num_tokens)))[1] for p in (policy, rare))
    assert one[text_corpus.UNKNOWN] == -jnp.inf
    np.testing.assert_allclose(jnp.exp(one).sum(), 1.0, rtol=1e-5)  # as many as may join have UNKNOWN's share together
    np.testing.assert_allclose(one[words.size :] - four[words.size :], np.log(4.0), rtol=1e-5)
    unknown = jnp.int32(text_corpus.UNKNOWN)
    after = [policy.step(policy.init(), SymbolOnly(t))[1] for t in (unknown, jnp.int32(words.size + 3))]
    np.testing.assert_array_equal(*after)


def test_a_place_that_no_word_joined_is_not_offered(author):
    task = text.task(author, "a z c")
    state = task.reset(jax.random.key(0))
    offers = np.flatnonzero(task.available(state))
    assert offers[offers >= author.vocabulary.size].tolist() == [author.vocabulary.size]  # z, which joined
    words = text.texts(task, pprjax.Paths.from_lists([[task.env.num_symbols, t] for t in offers]))
    assert sorted(words) == list("abcdefghz")
    log_probs = task.log_probs(task.policy.init(), state)[1]
    assert np.isfinite(log_probs[offers]).all()


LETTERS = Judges(asked=Likes(), other=Likes())


def test_every_sentence_gets_a_ladder_from_every_author(author):
    sentences = [("a b; c", "positive"), ("h a", None), ("c " * 11, None), ("A. B.", None)]
    table, rejected = experiment.ladders([author], sentences, LETTERS, CONFIG)
    assert table["number"].unique(maintain_order=True).to_list() == [0, 1, 3]
    assert table["sentence"].unique(maintain_order=True).to_list() == ["a b, c", "h a", "a, b"]
    assert table.filter(number=1)["towards"].to_list()[0] == "positive"  # h a is negative
    assert rejected == [f"{'c ' * 11!r}: sentence: expected 1 to 10 words, got 11 in {'c ' * 11!r}"]
    assert tables.notes(table)[0].startswith("'a b; c' was read as 'a b, c': ; became")
    for _, rows in table.group_by("number"):
        assert (rows["distance"].diff().drop_nulls() > 0).all() and (rows["value"].diff().drop_nulls() > 0).all()
        best = rows["value"] + CONFIG.lambda_path / (rows["distance"] + 1)
        assert rows["chosen"].to_list() == [i == best.arg_max() for i in range(len(rows))]
    alone, _ = experiment.ladders([author], sentences[3:], LETTERS, CONFIG)
    pl.testing.assert_frame_equal(table.filter(number=3).drop("number"), alone.drop("number"))  # alone or beside others
    own = agents.sentence_log_probs(author, [text_corpus.words_of(r) for r in table["recourse"]])
    np.testing.assert_allclose(table["log_prob_language"], own, rtol=1e-5)


def test_sentences_of_all_authors_share_a_program(author, tmp_path):
    """Vocabularies are padded to one size, whatever words they have."""
    words = str.maketrans("gh", "yz")
    other = text_corpus.Corpus("other", tuple(tuple(w.translate(words) for w in s) for s in LANGUAGE.sentences))
    authors = [author, agents.trained(other, SMALL, SHAPE, folder=tmp_path)[0]]
    assert authors[0].vocabulary.words != authors[1].vocabulary.words
    three = [("a b", "positive"), ("b", "negative"), ("h a", None)]
    experiment.ladders(authors[:1], three, LETTERS, CONFIG)
    programs = points._beams._cache_size()
    table, _ = experiment.ladders(authors, [("c d e", "negative"), ("g a", None), ("f", None)], LETTERS, CONFIG)
    assert set(table["author"]) == {"language", "other"} and points._beams._cache_size() == programs


def test_many_words_that_the_author_lacks_are_no_more_likely_than_its_rare_words_together(author):
    """The language has fewer rare words than this sentence brings, which once were above 1 together."""
    task = text.task(author, "q r s t u v w x y z", judge=Likes())
    state, carry = task.reset(jax.random.key(0)), task.policy.init()
    _, log_probs = task.log_probs(carry, state)
    assert author.vocabulary.num_rare < 10 and np.exp(log_probs).sum() <= 1 + 1e-6
    assert np.isfinite(log_probs[author.vocabulary.size :]).sum() == 10


def test_the_wanted_sentiment_is_the_opposite_of_what_is_read(author):
    """The world reads letters in lower case; a judge that minds the case is shown what is read."""

    class Shouts(Likes):
        def __call__(self, texts):
            return super().__call__(["b" if any(c.isupper() for c in t) else t for t in texts])

    table, _ = experiment.ladders([author], [("A C", None)], Judges(asked=Shouts(), other=Likes()), CONFIG)
    assert set(table["towards"]) == {"positive"} and (table["judge_before"] < 0.4).all()


def test_the_best_at_a_lambda_is_chosen_from_the_ladder(author):
    sentences = [("a c e g", "positive"), ("a c e g", "positive"), ("h a", "positive")]
    table, _ = experiment.ladders([author], sentences, LETTERS, CONFIG)
    best = experiment.at(table, (20.0, 0.0, 0.1))
    assert best.select("number", "lambda_path").rows() == [(i, x) for i in range(3) for x in (20.0, 0.0, 0.1)]
    for row in best.iter_rows(named=True):
        rungs = table.filter(number=row["number"])
        worth = rungs["value"] + row["lambda_path"] / (rungs["distance"] + 1)
        assert row["reward"] == pytest.approx(worth.max()) and row["recourse"] == rungs["recourse"][worth.arg_max()]
    assert experiment.summarize(best, "lambda_path")["sentences"].to_list() == [3, 3, 3]


@pytest.mark.slow
def test_no_word_of_a_rewriting_costs_more_than_it_may(author):
    sentences, most = [("a c e g", "positive")], 1.0
    free, _ = experiment.ladders([author], sentences, LETTERS, CONFIG)
    kept, _ = experiment.ladders([author], sentences, LETTERS, CONFIG, constraints=pprjax.Constraints(max_regret=most))
    asked = text.task(author, "a c e g", judge=Likes(), towards="positive", max_words=10)

    @jax.jit
    def regrets(actions):
        def step(lane, action):
            carry, log_probs = asked.log_probs(lane[1], lane[0])
            state, _, _ = asked.step(jax.random.key(0), lane[0], jnp.maximum(action, 0))
            return (state, carry), jnp.where(action < 0, 0.0, log_probs[action] - log_probs.max())

        return jax.lax.scan(step, (asked.reset(jax.random.key(0)), asked.policy.init()), actions)[1]

    def dearest(table):
        return max(-float(regrets(actions).min()) for actions in text.paths(asked, table["recourse"].to_list()).actions)

    assert dearest(free) > most >= dearest(kept) - 1e-4


@pytest.mark.slow
def test_settings_that_should_give_different_texts_do_and_each_serves_its_own_best(tmp_path):
    mirrored = text_corpus.Corpus("mirrored", tuple(sentence[::-1] for sentence in LANGUAGE.sentences))
    longer = SMALL.replace(steps=60)
    authors = [agents.trained(corpus, longer, SHAPE, folder=tmp_path)[0] for corpus in (LANGUAGE, mirrored)]
    sentences = [("a c e g", "positive"), ("b d f", "negative")]
    table, _ = experiment.ladders(authors, sentences, LETTERS, CONFIG)
    assert table["flipped"].all()
    best = experiment.at(table, (20.0, 0.01))
    for _, rows in best.group_by("number"):
        for _, of_author in rows.group_by("author", maintain_order=True):
            near, far = of_author.iter_rows(named=True)
            assert near["distance"] < far["distance"] and near["recourse"] != far["recourse"]
        for writer, other in (authors, authors[::-1]):
            own = rows.filter(author=writer.name, lambda_path=0.01)
            assert (own[f"log_prob_{writer.name}"] > own[f"log_prob_{other.name}"]).all()


def test_edits_are_marked():
    shown = tables.marked(["she", "was", "sad"], ["she", "is", "very", "glad"], "=~+~")
    assert (
        shown
        == "she [strike red]-was[/] [bold green]+is[/] [bold green]+very[/] [strike red]-sad[/] [bold green]+glad[/]"
    )
    assert tables.marked(["a", "b"], ["b"], "-=") == "[strike red]-a[/] b"


@pytest.mark.parametrize(
    "sentence, options, message",
    [
        ("", {}, "sentence: expected words, got ''"),
        ("c " * 11, {}, "sentence: expected 1 to 10 words, got 11"),
        ("c", {"corpus": ("language", "none=nowhere.txt")}, "corpus: expected one of psalms, kings, asv"),
        ("c", {"corpus": ()}, "corpus: expected authors of different names, got none"),
        ("c", {"model": ("nothing",)}, "model: expected NAME=FOLDER or NAME=FILE.gguf, got 'nothing'"),
        ("c", {"input": "sentences.txt"}, "input: expected a sentence or a file, got both"),
        (None, {"input": Path("nowhere.txt")}, r"input: can't read nowhere.txt \(No such file"),
        ("c", {"lambdas": (1.0, float("nan"))}, "lambdas: expected finite numbers of at least 0, got nan"),
        ("c", {"max_words": 0}, "max_words: expected at least 1, got 0"),
        ("c", {"lambda_policy": -1.0}, r"lambda_policy: expected .* got -1.0"),
        ("c", {"judge": "nonsense"}, "judge: expected vader, textblob or the folder of a classifier, got 'nonsense'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_trained(sentence, options, message, tmp_path, monkeypatch):
    def train(*args, **kwargs):
        raise AssertionError("trained")

    monkeypatch.setattr(agents, "trained", train)
    with pytest.raises(ValueError, match=message):
        command.main(sentence, out=tmp_path, **{"corpus": ("psalms",)} | options)
