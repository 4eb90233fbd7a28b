"""Judges of sentences, on the host: how positive a text is, in [0, 1], and from which score it counts as positive."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from pprjax.errors import UserError
from pprjax_envs.text.pretrained import load

INSTALL = "{0}: needs the package {0}, which `python3 -m pip install 'PATH/TO/pprjax[text]'` brings"

DIRECTIONS = ("positive", "negative")


class SentenceJudge(Protocol):
    """Says how positive texts are. Static and hashable; called on the host only.

    One that goes by the words of a text may say `by_words = True`: a search then asks it of each word alone, and tries
    those that it likes first.
    """

    @property
    def name(self) -> str: ...

    @property
    def positive(self) -> float:
        """The score from which on a text is positive."""
        ...

    @property
    def negative(self) -> float:
        """The score up to which a text is negative."""
        ...

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
        """float64[N] in [0, 1]: how positive each text is, whatever texts are beside it."""
        ...

    def reached(self, score: Any, towards: str) -> Any:
        """bool[...]: whether scores (float[...], of NumPy or JAX) count as "positive", or as "negative"."""
        ...


@dataclass(frozen=True)
class VADER:
    """(compound + 1) / 2 of VADER (Hutto and Gilbert, ICWSM 2014), a lexicon with rules; its own thresholds, ±0.05.

    Raises:
        ValueError: the package is absent.
    """

    name: str = field(default="VADER", init=False)
    by_words: bool = field(default=True, init=False)
    positive: float = field(default=(0.05 + 1) / 2, init=False)
    negative: float = field(default=(-0.05 + 1) / 2, init=False)

    def __post_init__(self):
        _vader()

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
        analyzer = _vader()
        return np.array([(analyzer.polarity_scores(text)["compound"] + 1) / 2 for text in texts], np.float64)

    def reached(self, score: Any, towards: str) -> Any:
        """Whether compound ≥ 0.05 towards "positive", ≤ -0.05 towards "negative"."""
        return score >= self.positive if _is_positive(towards) else score <= self.negative


@dataclass(frozen=True)
class TextBlob:
    """(polarity + 1) / 2 of TextBlob's default analyzer, a lexicon of adjectives and adverbs.

    Raises:
        ValueError: the package is absent.
    """

    name: str = field(default="TextBlob", init=False)
    by_words: bool = field(default=True, init=False)
    positive: float = field(default=0.5, init=False)
    negative: float = field(default=0.5, init=False)

    def __post_init__(self):
        _textblob()

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
        analyze = _textblob()
        return np.array([(analyze(text).polarity + 1) / 2 for text in texts], np.float64).clip(0, 1)

    def reached(self, score: Any, towards: str) -> Any:
        """Whether polarity > 0 towards "positive", < 0 towards "negative"."""
        return score > self.positive if _is_positive(towards) else score < self.negative


@dataclass(frozen=True)
class HuggingFaceJudge:
    """The probability that a sequence classifier gives to its positive label.

    Where no label is named, it is the one that contains "pos", or else the last of two. A text longer than the model
    reads is cut there; one without any token scores 0.5.

    Raises:
        ValueError: the extra `hf` is missing, the device or the model is unknown, batch_size is below 1, the tokenizer
            cannot pad, or it is not plain which label is meant; the message lists the labels.
        OSError: there is no such model, or a file of it is missing.
    """

    positive: float = field(default=0.5, init=False)
    negative: float = field(default=0.5, init=False)

    model: str  # a folder, or the id of a model on the hub
    label: str | None = None  # the positive one
    device: str = "cpu"  # as PyTorch names it
    batch_size: int = 32  # texts judged at once
    download: bool = False  # fetch from the hub what is not here

    def __post_init__(self):
        if self.batch_size < 1:
            raise UserError(f"batch_size: expected at least 1, got {self.batch_size}")
        self._label()

    @property
    def name(self) -> str:
        return self.model.rstrip("/").rpartition("/")[2]

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
        import torch

        model, tokenizer = _classifier(self.model, self.device, self.download)
        label = self._label()
        longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or 2**31)
        tokens = [tokenizer(text, truncation=True, max_length=longest)["input_ids"] for text in texts]
        scores = np.full(len(tokens), 0.5, np.float64)
        order = sorted((i for i in range(len(tokens)) if tokens[i]), key=lambda i: len(tokens[i]))
        for low in range(0, len(order), self.batch_size):
            rows = order[low : low + self.batch_size]
            inputs = tokenizer.pad({"input_ids": [tokens[i] for i in rows]}, return_tensors="pt").to(self.device)
            with torch.inference_mode():
                logits = model(**inputs).logits
            scores[rows] = torch.softmax(logits.double(), -1)[:, label].cpu().numpy()
        return scores

    def reached(self, score: Any, towards: str) -> Any:
        """Whether the positive label's probability is above 0.5 towards "positive", below it towards "negative"."""
        return score > self.positive if _is_positive(towards) else score < self.negative

    def _label(self) -> int:
        names = _classifier(self.model, self.device, self.download)[0].config.id2label
        labels = [names[i] for i in range(len(names))]
        if self.label is not None:
            meant = [i for i, name in enumerate(labels) if name == self.label]
        else:
            meant = [i for i, name in enumerate(labels) if "pos" in name.lower()]
            if not meant and len(labels) == 2:
                meant = [1]
        if len(meant) != 1 or len(labels) < 2:
            asked = "the positive one of two or more" if self.label is None else f"not {self.label!r} but one of them"
            raise UserError(f"label: expected {asked}; the labels of {self.name} are {', '.join(labels)}")
        return meant[0]


def _is_positive(towards: str) -> bool:
    if towards not in DIRECTIONS:
        raise UserError(f"towards: expected one of {', '.join(DIRECTIONS)}, got {towards!r}")
    return towards == "positive"


@functools.cache
def _vader() -> Any:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        raise UserError(INSTALL.format("vaderSentiment")) from error
    return SentimentIntensityAnalyzer()


@functools.cache
def _textblob() -> Any:
    try:
        from textblob.en.sentiments import PatternAnalyzer
    except ImportError as error:
        raise UserError(INSTALL.format("textblob")) from error
    return PatternAnalyzer().analyze


@functools.lru_cache(maxsize=2)
def _classifier(model: str, device: str, download: bool) -> tuple[Any, Any]:
    network, tokenizer = load("AutoModelForSequenceClassification", model, device=device, download=download)
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token_id is None:
            raise UserError(f"model: expected a tokenizer with a padding or an end token, got {model} without either")
        tokenizer.pad_token = tokenizer.eos_token
    network.config.pad_token_id = tokenizer.pad_token_id  # a decoder judges by the last token that is not padding
    return network, tokenizer
