"""Judges: known scores, thresholds met exactly, and a small classifier of Hugging Face against one text at a time."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from pprjax_envs.text import judges as text_judges
from pprjax_envs.text.judges import VADER, HuggingFaceJudge, TextBlob

COMPOUND = {"She was sad": -0.4767, "The book on the table is boring": -0.3182, "I am in love": 0.6369, "The cup": 0.0}
POLARITY = {"She was sad": -0.5, "The book on the table is boring": -1.0, "I am in love": 0.5, "The cup": 0.0}


@pytest.fixture
def vader():
    return VADER()


@pytest.fixture
def blob():
    return TextBlob()


def test_vader_gives_known_compounds(vader):
    scores = vader(list(COMPOUND))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(2 * scores - 1, list(COMPOUND.values()), atol=1e-12)
    assert vader([]).shape == (0,) and vader(["she was sad", ""]).tolist() == [(1 - 0.4767) / 2, 0.5]


def test_textblob_gives_known_polarities(blob):
    import textblob

    np.testing.assert_allclose(2 * blob(list(POLARITY)) - 1, list(POLARITY.values()), atol=1e-12)
    texts = ["not a very good day", "the best and the worst!", ""]
    assert 2 * blob(texts) - 1 == pytest.approx([textblob.TextBlob(text).polarity for text in texts])
    assert blob([]).shape == (0,)


@pytest.mark.parametrize("convert", [np.float64, jnp.float32, np.float32, lambda x: [np.asarray(s) for s in x]])
def test_vader_counts_from_compound_0_05_on(vader, convert):
    compound = np.array([-0.0501, -0.05, -0.0499, 0.0, 0.0499, 0.05, 0.0501])
    scores = convert((compound + 1) / 2)
    assert [bool(vader.reached(s, "positive")) for s in scores] == [False] * 5 + [True] * 2
    assert [bool(vader.reached(s, "negative")) for s in scores] == [True] * 2 + [False] * 5


def test_textblob_counts_beyond_polarity_0(blob):
    scores = np.array([0.5 - 1e-9, 0.5, 0.5 + 1e-9])
    assert blob.reached(scores, "positive").tolist() == [False, False, True]
    assert blob.reached(scores, "negative").tolist() == [True, False, False]


def test_a_direction_that_is_none(vader):
    with pytest.raises(ValueError, match="towards: expected one of positive, negative, got 'up'"):
        vader.reached(0.7, "up")


@pytest.mark.parametrize(
    ("judge", "package", "message"),
    [
        (VADER, "vaderSentiment.vaderSentiment", "vaderSentiment, which .*pprjax.text.* brings"),
        (TextBlob, "textblob.en.sentiments", "textblob, which .*pprjax.text.* brings"),
        (lambda: HuggingFaceJudge("anything"), "transformers", "transformers and PyTorch, which .*pprjax.hf.* brings"),
    ],
)
def test_what_is_absent_is_said(judge, package, message, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for cached in (text_judges._vader, text_judges._textblob, text_judges._classifier):
        cached.cache_clear()
    with pytest.raises(ValueError, match=message):
        judge()


WORDS = ["[PAD]", "[UNK]", "[END]", "she", "was", "very", "sad", "happy", "and", "the", "cup", "is", "empty"]
TEXTS = ["she was sad", "the cup is very very empty and sad", "happy", "", "the cup", "she", "quite unknown"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A function from the labels of a small random classifier, and whether it can pad, to its folder."""
    pytest.importorskip("transformers", reason="the extra `hf` is not installed")
    torch = pytest.importorskip("torch")
    import tokenizers
    import transformers

    torch.set_num_threads(1)  # on a model this small threads only wait for each other

    def make(labels, pads=True):
        folder = tmp_path_factory.mktemp("classifier")
        words = tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]")
        tokenizer = tokenizers.Tokenizer(words)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        special = {"pad_token": "[PAD]"} if pads else {"eos_token": "[END]"}
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, unk_token="[UNK]", model_max_length=6, **special
        ).save_pretrained(folder)
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            vocab_size=len(WORDS), n_positions=6, n_embd=16, n_layer=2, n_head=2, initializer_range=1.0,
            bos_token_id=None, eos_token_id=None,
            id2label=dict(enumerate(labels)), label2id={x: i for i, x in enumerate(labels)},
        )  # fmt: skip
        transformers.GPT2ForSequenceClassification(config).save_pretrained(folder)
        return str(folder)

    return make


def one_by_one(folder, texts, label):
    """The probability of a label, of each text alone and unpadded."""
    import torch
    import transformers

    model = transformers.GPT2ForSequenceClassification.from_pretrained(folder).eval()
    scores = []
    for text in texts:
        tokens = [WORDS.index(word) if word in WORDS else 1 for word in text.split()][:6]
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0]
        scores.append(torch.softmax(logits, -1)[label].item())
    return scores


@pytest.mark.parametrize("pads", [True, False])
def test_a_classifier_in_batches_is_itself_one_by_one(classifier, pads):
    folder = classifier(["neg", "neutral", "Positive"], pads)
    read = [text for text in TEXTS if text]
    expected = dict(zip(read, one_by_one(folder, read, 2), strict=True))
    assert np.ptp(list(expected.values())) > 0.1
    for batch_size in (1, 4, 32):
        judge = HuggingFaceJudge(folder, batch_size=batch_size)
        scores = judge(TEXTS)
        np.testing.assert_allclose(scores, [expected.get(text, 0.5) for text in TEXTS], atol=1e-5)
    assert scores.dtype == np.float64 and judge([]).shape == (0,)
    assert judge == HuggingFaceJudge(folder, batch_size=32) and hash(judge) == hash(HuggingFaceJudge(folder))
    named = HuggingFaceJudge(folder, label="neutral")
    np.testing.assert_allclose(named(["happy"]), one_by_one(folder, ["happy"], 1), atol=1e-5)


def test_the_positive_label(classifier):
    first, last = classifier(["POSITIVE", "NEGATIVE"]), classifier(["LABEL_0", "LABEL_1"])
    np.testing.assert_allclose(HuggingFaceJudge(first)(["she"]), one_by_one(first, ["she"], 0), atol=1e-5)
    np.testing.assert_allclose(HuggingFaceJudge(last)(["she"]), one_by_one(last, ["she"], 1), atol=1e-5)
    with pytest.raises(ValueError, match=r"label: expected not 'good' but one of them; .* are LABEL_0, LABEL_1"):
        HuggingFaceJudge(last, label="good")
    for labels in (["1 star", "2 stars", "3 stars"], ["very positive", "positive", "negative"], ["positive"]):
        with pytest.raises(ValueError, match="label: expected the positive one of two or more; .*are " + labels[0]):
            HuggingFaceJudge(classifier(labels))


def test_mistakes_about_a_classifier(classifier, tmp_path):
    folder = classifier(["neg", "pos"])
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        HuggingFaceJudge(folder, batch_size=0)
    with pytest.raises(ValueError, match=r"device: .*nowhere"):
        HuggingFaceJudge(folder, device="nowhere")
    with pytest.raises(FileNotFoundError, match=r"model: no such folder: .*absent"):
        HuggingFaceJudge(str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match=r"no-such/model' is neither a folder nor .* download=True"):
        HuggingFaceJudge("no-such/model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"model: Unrecognized model in .*empty"):
        HuggingFaceJudge(str(tmp_path / "empty"))
