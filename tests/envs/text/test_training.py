"""The transformer: its training, and what it says of whole sentences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs.sequence import SymbolOnly
from pprjax_envs.text import agents, training
from pprjax_envs.text import corpus as text_corpus
from tiny_author import LANGUAGE, SHAPE, SMALL


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
    for tokens, next_state, places, numbers in zip(
        rows.tokens, rows.following, rows.places, rows.sentences, strict=True
    ):
        for number in range(numbers.max() + 1):
            index = numbers == number
            found.append((tokens[index].tolist(), next_state[index].tolist()))
            assert places[index].tolist() == list(range(index.sum()))
        assert (next_state[numbers < 0] == -1).all()
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


@pytest.mark.slow
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
