"""Text as a world: corpora, the transformer and its cache, the rules, and recourse against brute force."""

import dataclasses
import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import text
from pprjax_envs.sequence import SymbolOnly
from pprjax_envs.text import agents, command, experiment, tables, training, transformer
from pprjax_envs.text import corpus as text_corpus
from pprjax_envs.text.experiment import Judges
from pprjax_envs.text.settings import SETTINGS
from text_fake import Letters, Likes, V, chain, world

import pprjax
from pprjax.reward import total
from pprjax.scoring import score

CONFIG = SETTINGS.replace(iterations=40)  # of all tests, so that they share a compilation


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


@pytest.mark.parametrize("seed, towards", [(0, "positive"), (1, "negative"), (2, "positive")])
def test_recourse_attains_the_brute_force_optimum(seed, towards):
    task = world(seed, "bab" if towards == "negative" else "aca", towards=towards)
    paths = every_path(task)
    lambdas = np.array([3.0, 0.1], np.float32)
    scores = score(task, task.env.original[[0] * len(paths)], paths, CONFIG)
    met = Likes().reached(Likes()(task.env.texts(paths)), towards)
    config = CONFIG.replace(lambda_path=lambdas, lambda_policy=0.3)
    found = pprjax.recourse(
        task, task.env.original[[0, 0]], config, method="learn", key=jax.random.key(0), progress=False
    )
    for i, lambda_path in enumerate(lambdas):
        worth = total(scores.goal, scores.path, scores.r_policy, lambda_path=lambda_path, lambda_policy=0.3)
        np.testing.assert_allclose(found.reward[i], np.where(met, worth, -np.inf).max(), rtol=1e-4)
    assert (found.status == "reached_goal").all()


def test_what_is_offered_is_the_end_the_originals_words_and_the_likeliest_others():
    task = world(3)
    env, params = task.env, task.params
    state = task.reset(jax.random.key(0))
    own = [0, 1, 3]  # the end, a and c
    likely = np.asarray(chain(3).step((), SymbolOnly(V))[1])
    others = sorted({2, 4}, key=lambda t: -likely[t])
    assert state.offers.tolist() == [*own, -1, *others]
    np.testing.assert_allclose(state.log_probs[jnp.array([0, 1, 2, 4, 5])], likely[[*own, *others]], rtol=1e-6)
    assert env.available(state, params).tolist() == [False, True, True, False, True, True]  # no empty sentence
    for action in (1, 1, 1):
        state = env.step_env(jax.random.key(0), state, action, params)[1]
    assert np.flatnonzero(env.available(state, params)).tolist() == [0]  # room for nothing but the end


def test_the_original_leads_along_its_own_words_and_edits_count_words():
    task = world(1, "acd", max_words=5)
    original = task.env.original
    assert original.to_lists() == [[V, 1, 3, 4, 0]]
    scores = score(task, original, original)
    assert scores.distance.tolist() == [0]
    model = chain(1).logits
    logs = jax.nn.log_softmax(model, axis=-1)
    expected = np.mean([logs[i, j] for i, j in itertools.pairwise([V, 1, 3, 4, 0])])
    np.testing.assert_allclose(scores.policy, [expected], rtol=1e-5)
    np.testing.assert_allclose(scores.goal, Likes()(["acd"]), rtol=1e-6)
    assert task.env.texts(original) == ["acd"]


def test_a_path_is_followed_by_its_words_though_behind_another_they_are_numbered_anew():
    task = world(2, "ba", max_words=5, num_best=3)  # all words are offered, c and d by their rank
    env, params, key = task.env, task.params, jax.random.key(0)
    meant = {}
    for sentence in ("bcd", "acd", "dcd"):  # the same but for the first word
        tokens, state, actions = [*Letters().tokens_of(sentence).tolist(), 0], task.reset(key), []
        for token in tokens:
            actions.append(int(env.action_to(state, jnp.int32(token), params)))
            state = env.step_env(key, state, actions[-1], params)[1]
        assert state.prefix.tolist() == [*tokens, -1, -1] and bool(state.ended)
        path = np.array([V, *tokens, -1, -1]), np.array([*actions, -1, -1])
        assert task.steps_of(*map(jnp.asarray, path)).tolist() == [*tokens, -1, -1]
        meant[sentence] = actions[1:]
    assert len(set(map(tuple, meant.values()))) > 1  # other actions for the same words
    few = world(2, "ba", max_words=5, num_best=1)
    state = few.reset(key)
    hidden = next(t for t in range(1, V) if t not in state.offers.tolist())
    assert int(few.action_to(state, jnp.int32(hidden))) == int(few.action_to(state, jnp.int32(-1))) == -1


def test_a_word_is_liked_where_it_is_likelier_than_one_drawn_from_the_whole_vocabulary():
    task = world(0, num_best=1, size=40)  # 4 tokens are offered at each step
    scores = score(task, task.env.original, task.env.original, CONFIG)
    logs = jax.nn.log_softmax(chain(0).logits, axis=-1)
    probs = np.exp([logs[i, j] for i, j in itertools.pairwise([V, 1, 3, 1, 0])])
    np.testing.assert_allclose(scores.r_policy, [sum(float(pprjax.link(p, 40)) for p in probs)], rtol=1e-4)


def test_worlds_of_one_size_share_a_program_and_keep_their_own_model_judge_and_words():
    class Dislikes(Likes):
        def __call__(self, texts):
            return 1 - super().__call__(texts)

    one, other = world(0), world(4, "bcb", judge=Dislikes())
    assert one.env == other.env and hash(one.env) == hash(other.env)
    results = [
        pprjax.recourse(t, t.env.original, CONFIG, method="learn", key=jax.random.key(0), progress=False)
        for t in (one, other, one)
    ]
    assert results[0].paths.to_lists() == results[2].paths.to_lists()
    for task, judge, found in zip((one, other), (Likes(), Dislikes()), results[:2], strict=True):
        np.testing.assert_allclose(found.scores.goal, judge(task.env.texts(found.paths)), rtol=1e-6)


def test_what_the_judge_raises_is_raised_outside():
    class Broken(Likes):
        def __call__(self, texts):
            raise ZeroDivisionError("no mood today")

    task = world(0, judge=Broken())
    found = pprjax.recourse(task, task.env.original, CONFIG, method="learn", key=jax.random.key(0), progress=False)
    assert not np.isfinite(found.scores.goal).any() or (found.status != "reached_goal").all()
    with pytest.raises(ZeroDivisionError, match="no mood today"):
        task.env.check()
    task.env.check()  # once is enough


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(towards="funny"), "towards: expected positive or negative, got 'funny'"),
        (dict(max_words=2), "sentence: expected 1 to 2 words, got 3 in 'aca'"),
        (dict(num_best=0), "num_best: expected at least 1 and at most 5, got 0"),
        (dict(num_best=6), "num_best: expected at least 1 and at most 5, got 6"),
        (dict(max_words=0), "max_words: expected at least 1, got 0"),
    ],
)
def test_a_bad_world_is_an_error_that_names_the_argument(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        world(**options)


def test_sentences_end_at_their_marks_and_keep_inner_punctuation():
    assert text_corpus.split('He said, "It\'s late; go home!" -- and left.') == [
        ("he", "said", ",", "it's", "late"),
        ("go", "home"),
        ("and", "left"),
    ]
    assert text_corpus.words_of("The 3 well-known dogs, they say.") == [
        "the",
        "3",
        "well-known",
        "dogs",
        ",",
        "they",
        "say",
    ]
    assert text_corpus.as_text(["oh", ",", "dear"]) == "oh, dear"


@pytest.mark.parametrize(
    "sentence, message",
    [("", "expected words, got ''"), (" ... ", "expected words"), ("Go. Stay.", "expected one, got 2, .*'stay'")],
)
def test_a_sentence_is_one_and_has_words(sentence, message):
    with pytest.raises(ValueError, match=message):
        text_corpus.words_of(sentence)


CORPUS = text_corpus.Corpus("tiny", tuple(tuple(s.split()) for s in ["a b a", "b a c", "a b d", "e"]))


def test_the_vocabulary_keeps_common_words_and_counts_the_rare():
    words = text_corpus.vocabulary(CORPUS, 10)
    assert words.words == ("<end>", "<unknown>", "a", "b")
    assert (words.num_rare, words.num_tokens) == (3, 10 + text_corpus.JOINED)  # c, d and e occur once
    assert text_corpus.vocabulary(CORPUS, 3).words[2:] == ("a",)
    assert words.encode(["b", "zebra"]).tolist() == [3, text_corpus.UNKNOWN]


@given(st.lists(st.sampled_from(["a", "b", "boring", "dull", "grey"]), min_size=1, max_size=8))
def test_words_that_join_have_tokens_of_their_own(sentence):
    words = text_corpus.vocabulary(CORPUS, 10).join(sentence)
    tokens = words.encode(sentence)
    assert words.decode([*tokens, text_corpus.END]) == sentence
    assert text_corpus.UNKNOWN not in tokens and (tokens < words.num_tokens).all()
    assert words.join(sentence) == words


def test_a_vocabulary_has_room_for_so_many_words_and_no_more():
    words = text_corpus.vocabulary(CORPUS, 10)
    with pytest.raises(ValueError, match=f"room for {text_corpus.JOINED} that the corpus lacks, got 65"):
        words.join([f"w{i}" for i in range(text_corpus.JOINED + 1)])
    with pytest.raises(ValueError, match="expected words of the vocabulary, got 'dull'"):
        words.tokens_of("a dull b")


def test_a_corpus_that_cannot_serve_is_an_error(tmp_path):
    latin, small = tmp_path / "latin.txt", tmp_path / "small.txt"
    latin.write_bytes("Gr\xfc\xdfe. ".encode("latin-1") * 200)
    small.write_text("One sentence. Another.")
    for spec, message in [
        (f"x={latin}", "not UTF-8 at byte 2"),
        (f"x={small}", f"at least {text_corpus.MIN_SENTENCES} sentences, got 2"),
        (f"x={tmp_path / 'none.txt'}", "can't read .*none.txt"),
        ("harry", "expected one of psalms, kings, asv, or NAME=file.txt, got 'harry'"),
        ("=a.txt", "expected NAME=file.txt"),
    ]:
        with pytest.raises(ValueError, match=message):
            text_corpus.named(spec)


def test_the_bible_comes_with_the_extra():
    whole = text_corpus.bible("asv")
    assert text_corpus.as_text(whole.sentences[0]) == "in the beginning god created the heavens and the earth"
    words = sum(word[0].isalpha() for sentence in whole.sentences for word in sentence)
    assert abs(words / 784_000 - 1) < 0.01
    assert text_corpus.as_text(text_corpus.bible("psalms").sentences[0]).startswith("blessed is the man")


SHAPE = transformer.Architecture(width=16, layers=2, heads=2, feed_forward=16)
SMALL = training.Training(vocabulary=12, steps=8, rows=4, learning_rate=1e-2)
LANGUAGE = text_corpus.Corpus(  # after each word one of two, the first of them three times in four
    "language",
    tuple(tuple("abcdefgh"[(i + j + (i * j % 4 == 3)) % 8] for j in range(3 + i % 5)) for i in range(400)),
)


@pytest.fixture(scope="module")
def author(tmp_path_factory):
    return agents.trained(LANGUAGE, SMALL, SHAPE, folder=tmp_path_factory.mktemp("weights"))[0]


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
    rare = policy.replace(log_rare=jnp.log(jnp.float32(4.0)))
    one, four = (p.step(p.init(), SymbolOnly(jnp.int32(words.num_tokens)))[1] for p in (policy, rare))
    assert one[text_corpus.UNKNOWN] == -jnp.inf
    np.testing.assert_allclose(jnp.exp(one[: words.size]).sum() + jnp.exp(one[words.size]), 1.0, rtol=1e-5)
    np.testing.assert_allclose(one[words.size :] - four[words.size :], np.log(4.0), rtol=1e-5)
    unknown = jnp.int32(text_corpus.UNKNOWN)
    after = [policy.step(policy.init(), SymbolOnly(t))[1] for t in (unknown, jnp.int32(words.size + 3))]
    np.testing.assert_array_equal(*after)


def test_a_place_that_no_word_joined_is_not_offered(author):
    """A small vocabulary offers all that it has: then they would be, being as likely as a rare word."""
    task = text.task(author, "a z c", num_best=author.vocabulary.num_tokens)
    state = task.reset(jax.random.key(0))
    offers = np.asarray(state.offers)[np.asarray(task.available(state))]
    joined = offers[offers >= author.vocabulary.size]
    assert joined.tolist() == [author.vocabulary.size]  # z, which joined
    assert sorted(task.env.texts(pprjax.Paths.from_lists([[task.env.num_tokens, t] for t in offers]))) == list(
        "abcdefghz"
    )


def test_log_probs_of_all_sentences_of_a_language_sum_to_one(author):
    """Of up to two words: what is left is longer than that."""
    words = [w for w in author.vocabulary.words[2:]]
    short = [[w] for w in words] + [list(pair) for pair in itertools.product(words, repeat=2)]
    logs = agents.sentence_log_probs(author, short)
    step, policy = jax.jit(lambda c, t: author.policy.step(c, SymbolOnly(t))), author.policy
    carry, first = step(policy.init(), jnp.int32(author.vocabulary.num_tokens))
    once = {w: float(first[author.vocabulary.encode([w])[0]]) for w in words}
    for w in words[:3]:
        _, second = step(carry, jnp.int32(author.vocabulary.encode([w])[0]))
        np.testing.assert_allclose(logs[words.index(w)], once[w] + float(second[text_corpus.END]), rtol=1e-4)
    assert 0 < np.exp(logs).sum() < 1


@given(st.lists(st.lists(st.integers(2, 9), max_size=70), min_size=1, max_size=12))
@settings(max_examples=40)
def test_rows_hold_every_sentence_once_and_apart(sentences):
    rows = training.pack([np.array(s, np.int32) for s in sentences], 99)
    found = []
    for tokens, following, places, numbers in zip(
        rows.tokens, rows.following, rows.places, rows.sentences, strict=True
    ):
        for number in range(numbers.max() + 1):
            at = numbers == number
            found.append((tokens[at].tolist(), following[at].tolist()))
            assert places[at].tolist() == list(range(at.sum()))
        assert (following[numbers < 0] == -1).all()
    expected = [([99, *s][:64], [*s, text_corpus.END][:64]) for s in sentences]
    assert found == expected


def test_a_sentence_does_not_see_its_neighbour_in_a_row(author):
    network, params = author.policy.network, author.policy.params
    rows = training.pack([np.array(s, np.int32) for s in ([2, 3, 4], [5, 6])], author.vocabulary.size)
    changed = training.pack([np.array(s, np.int32) for s in ([7, 7, 7], [5, 6])], author.vocabulary.size)
    one, other = (network.apply(params, r.tokens, r.places, r.sentences)[0] for r in (rows, changed))
    second = rows.sentences[0] == 1
    np.testing.assert_array_equal(one[second], other[second])
    assert (one[:3] != other[:3]).any()


def test_training_learns_a_language(tmp_path):
    """A walk on a ring: six words follow one another, the end comes after any with chance 1/4."""
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(1500):
        start, length = rng.integers(6), 1 + min(rng.geometric(0.25), 30) - 1
        sentences.append(tuple("abcdef"[(start + i) % 6] for i in range(length)))
    corpus = text_corpus.Corpus("ring", tuple(sentences))
    longer = SMALL.replace(steps=150, rows=16, learning_rate=1e-2)
    author = agents.trained(corpus, longer, SHAPE.replace(dropout=0.0), folder=tmp_path)[0]
    surprise = np.log(6) + 4 * -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))  # of a sentence, of five tokens on average
    assert float(author.perplexity) == pytest.approx(np.exp(surprise / 5), rel=0.08)


def test_a_training_that_was_killed_goes_on_where_it_was(tmp_path):
    longer = SMALL.replace(steps=60, patience=9)

    def train(folder, watch=None):
        return agents.trained(LANGUAGE, longer, SHAPE, folder=folder, watch=watch)

    class Killed(Exception):
        pass

    def kill(step, perplexity):
        if step >= 50:
            raise Killed

    seen = []
    whole, _ = train(tmp_path / "whole")
    with pytest.raises(Killed):
        train(tmp_path / "killed", kill)
    resumed, reloaded = train(tmp_path / "killed", lambda step, perplexity: seen.append(step))
    assert not reloaded and seen[0] == 50
    jax.tree.map(np.testing.assert_array_equal, whole, resumed)
    again, reloaded = train(tmp_path / "killed")
    assert reloaded and [p.name for p in (tmp_path / "killed").glob("*.part")] == []
    jax.tree.map(np.testing.assert_array_equal, whole, again)


@pytest.mark.slow
def test_bfloat16_rounds_the_products_and_not_the_weights(author, tmp_path):
    coarse = agents.trained(LANGUAGE, SMALL.replace(bfloat16=True), SHAPE, folder=tmp_path)[0]
    assert {x.dtype for x in jax.tree.leaves(coarse.policy.params)} == {jnp.dtype(jnp.float32)}
    assert coarse.perplexity != author.perplexity
    assert float(coarse.perplexity) == pytest.approx(float(author.perplexity), rel=0.02)


@pytest.mark.slow
def test_training_stops_when_held_out_sentences_get_no_likelier(tmp_path):
    seen = []
    longer = SMALL.replace(steps=400, learning_rate=0.3, patience=1)  # too fast to settle
    agents.trained(LANGUAGE, longer, SHAPE, folder=tmp_path, watch=lambda *x: seen.append(x))
    assert seen[-2][0] < 375
    assert seen[-2][1] == min(p for _, p in seen)


LETTERS = Judges(asked=Likes(), other=Likes())
QUICK = CONFIG.replace(iterations=10, lambda_policy=0.5)


def test_every_sentence_is_rewritten_by_every_author_at_every_lambda(author):
    sentences = [("a b c", "positive"), ("h a", None), ("a. b.", None), ("c " * 11, None)]
    table, rejected = experiment.rewrite([author], sentences, LETTERS, QUICK, (10.0, 0.1), num_offered=8)
    assert table["sentence"].to_list() == ["a b c"] * 2 + ["h a"] * 2
    assert table["towards"].to_list() == ["positive"] * 4  # h a is negative
    assert [r.partition(": ")[2] for r in rejected] == [
        "sentence: expected one, got 2, of which the second is 'b'",
        f"sentence: expected 1 to 10 words, got 11 in {'c ' * 11!r}",
    ]
    alone, _ = experiment.rewrite([author], sentences[1:2], LETTERS, QUICK, (10.0, 0.1), num_offered=8)
    assert table[2:].equals(alone)  # whatever stands beside it
    own = agents.sentence_log_probs(author, [r.split() for r in table["recourse"]])
    np.testing.assert_allclose(table["log_prob_language"], own, rtol=1e-5)


def test_a_rewriting_is_the_best_at_its_lambda_whichever_search_found_it(author, monkeypatch):
    def swapped(*args, **options):
        found = recourse(*args, **options)
        status, scores = found.status[::-1], jax.tree.map(lambda x: x[::-1], found.scores)
        return dataclasses.replace(found, paths=found.paths[[1, 0]], status=status, scores=scores)

    recourse, asked = pprjax.recourse, ([author], [("a c e g", "positive")], LETTERS, QUICK, (20.0, 0.1))
    found = [experiment.rewrite(*asked, num_offered=8)[0]]
    monkeypatch.setattr(experiment, "recourse", swapped)
    found.append(experiment.rewrite(*asked, num_offered=8)[0])
    chosen, swapped_back = (table.drop("reward_alone", "distance_alone") for table in found)
    assert chosen["recourse"].n_unique() == 2
    assert chosen.equals(swapped_back)
    assert found[1]["distance_alone"].to_list() == found[0]["distance_alone"].to_list()[::-1]  # as each search found it


@pytest.mark.slow
def test_settings_that_should_give_different_texts_do_and_each_serves_its_own_best(tmp_path):
    mirrored = text_corpus.Corpus("mirrored", tuple(sentence[::-1] for sentence in LANGUAGE.sentences))
    longer = SMALL.replace(steps=60)
    authors = [agents.trained(corpus, longer, SHAPE, folder=tmp_path)[0] for corpus in (LANGUAGE, mirrored)]
    sentences = [("a c e g", "positive"), ("b d f", "negative")]
    table, _ = experiment.rewrite(authors, sentences, LETTERS, QUICK, (20.0, 0.1), num_offered=8)
    assert table["flipped"].all()
    for _, rows in table.group_by("sentence"):
        assert rows["recourse"].n_unique() == 4
        for _, of_author in rows.group_by("author", maintain_order=True):
            near, far = of_author.iter_rows(named=True)
            assert near["lambda_path"] > far["lambda_path"] and near["distance"] < far["distance"]
            for one, other in ((near, far), (far, near)):  # R of the other's text at this λ_path
                moved = other["reward"] + (one["lambda_path"] - other["lambda_path"]) * other["s_path"]
                assert one["reward"] > moved
        for writer, other in (authors, authors[::-1]):
            own = rows.filter(author=writer.name, lambda_path=0.1)
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
        ("c", {"model": ("nothing",)}, "model: expected NAME=FOLDER, got 'nothing'"),
        ("c", {"input": "sentences.txt"}, "input: expected a sentence or a file, got both"),
        (None, {"input": Path("nowhere.txt")}, r"input: can't read nowhere.txt \(No such file"),
        ("c", {"lambdas": (1.0, float("nan"))}, "lambdas: expected finite numbers of at least 0, got nan"),
        (
            "c",
            {"config": SETTINGS.replace(lambda_path=3.0)},
            r"lambda_path: expected it as one of lambdas \(--lambdas 3\), got both",
        ),
        ("c", {"lambdas": ()}, "lambdas: expected finite numbers of at least 0, got none"),
        ("c", {"num_offered": 0}, "num_offered: expected at least 1, got 0"),
        ("c", {"max_words": 0}, "max_words: expected at least 1, got 0"),
        ("c", {"config": SETTINGS.replace(lambda_policy=-1.0)}, r"lambda_policy: expected .* got -1.0"),
        ("c", {"judge": "nonsense"}, "judge: expected vader, textblob or the folder of a classifier, got 'nonsense'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_trained(sentence, options, message, tmp_path, monkeypatch):
    def train(*args, **kwargs):
        raise AssertionError("trained")

    monkeypatch.setattr(agents, "trained", train)
    with pytest.raises(ValueError, match=message):
        command.main(sentence, out=tmp_path, **{"corpus": ("psalms",)} | options)
