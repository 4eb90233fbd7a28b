"""What a sentence is, which words a vocabulary has, and where corpora come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pprjax_envs.text import corpus as text_corpus


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
    "typed, words, marks",
    [
        ("I don’t like this at all!", "i don't like this at all", []),
        ("“So” — he said…", "so -- he said", ['"', '"']),
        ("NOT the worst food I've had; honestly great :)", "not the worst food i've had, honestly great", [";", ":)"]),
        ("Go. Stay.", "go, stay", ["."]),
        ("Really?! Yes :-) no", "really, yes no", ["?", "!", ":-)"]),
        ("wait... , what (now)?", "wait, what now", [".", ".", ".", "(", ")"]),
        (", well: done 👍", "well, done", [",", ":", "👍"]),
        ("a :do", "a, do", [":"]),
    ],
)
def test_a_line_is_one_sentence_and_tells_its_marks(typed, words, marks):
    found, left = text_corpus.words_and_marks(typed)
    assert (text_corpus.as_text(found), left) == (words, marks)
    assert text_corpus.words_and_marks(words)[0] == found  # as it is read, so it is read again


@pytest.mark.parametrize("sentence", ["", " ... ", ":)"])
def test_a_sentence_has_words(sentence):
    with pytest.raises(ValueError, match="sentence: expected words, got"):
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
