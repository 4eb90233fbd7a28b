"""Sentences that should sound otherwise, in their author's own voice.

After the text experiment of Personalized Path Recourse (arXiv 2312.08724): a language model of one author's writing is
the agent, a judge of sentiment is the goal, and "she was sad" is to become positive as this author would have put it.

    author, _ = text.trained(text.corpus.bible("psalms"))
    task = text.task(author, "She was sad")
    front = pprjax.frontier(task, text.paths(task, ["She was sad"]), text.settings.SETTINGS, calls=0)
    task.env.check()
    text.texts(task, front.paths)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.errors import UserError
from pprjax.goals import Goal, reached
from pprjax.paths import Paths
from pprjax.task import Task
from pprjax_envs.sequence import Guide, Offered, OnHost, SequenceEnv
from pprjax_envs.text.agents import Author, sentence_log_probs
from pprjax_envs.text.corpus import JOINED, words_of
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.judges import VADER, SentenceJudge

CONVICTION = 2.0
"""What the judge's opinion of a prefix weighs while a search goes on, beside the same opinion of a sentence: what turns
a judge is often a word that the author finds unlikely there, and pays only later."""

Towards = Literal["positive", "negative"]

CLASSES: tuple[Towards, Towards] = ("negative", "positive")
"""What a sentence may be taken for."""


class Alphabet(Protocol):
    """The tokens of a language model: an author's `Vocabulary`, or a Hugging Face tokenizer's."""

    @property
    def num_tokens(self) -> int:
        """V; the start is token V."""
        ...

    @property
    def end(self) -> int:
        """The token that ends a sentence."""
        ...

    @property
    def written(self) -> Bool[np.ndarray, " V"]:
        """Which tokens may stand in a sentence; the end is none of them."""
        ...

    def tokens_of(self, text: str) -> Int[np.ndarray, " n"]:
        """The tokens of a sentence, without the end; raises a ValueError for one that it can't write."""
        ...

    def text_of(self, tokens: Sequence[int] | Int[np.ndarray, " n"]) -> str:
        """The sentence of these tokens; an end among them is left out."""
        ...


@dataclass(frozen=True)
class Spelling:
    """The sentence that tokens are. Called on the host only."""

    alphabet: Alphabet

    def __call__(self, tokens: Int[np.ndarray, " n"]) -> str:
        return self.alphabet.text_of(tokens)


@dataclass(frozen=True)
class Opinion:
    """A judge of sentences as one of classes: two of one judge are equal, so that they are asked together."""

    judge: SentenceJudge

    def __call__(self, sentences: list[str]) -> Float[np.ndarray, "N 2"]:
        """How negative and how positive they are: 1 - score and score."""
        scores = np.asarray(self.judge(sentences), float)
        return np.stack([1.0 - scores, scores], axis=1)

    def takes(self, probs: Float[np.ndarray, "N 2"]) -> Bool[np.ndarray, "N 2"]:
        """Whether the judge counts each as negative and as positive, by thresholds of its own."""
        return np.stack([self.judge.reached(probs[:, 1], name) for name in CLASSES], axis=1)


def sentence_env(
    alphabet: Alphabet,
    *,
    judge: SentenceJudge | None = None,
    towards: Towards = "positive",
    max_words: int = 10,
    size: int | None = None,
) -> SequenceEnv:
    """Sentences, written token by token. The end pays how much of the wanted sentiment a judge finds, in [0, 1].

    A symbol is a token, any that the alphabet may write, and a sentence has one at least. The judge reads every prefix
    that a search keeps, and each once: a search follows what it finds. It is asked on the host, of all sentences of a
    stack together, see `pprjax_envs.sequence.OnHost`: its scores are NaN where it raises, and the world's `check`
    raises it.

    Args:
        alphabet: the tokens.
        judge: how positive sentences are; default VADER.
        towards: the wanted sentiment.
        max_words: tokens of a sentence at most, the end apart.
        size: A of Eq. 4; default V.

    Raises:
        ValueError: a setting is out of range.
    """
    if towards not in CLASSES:
        raise UserError(f"towards: expected positive or negative, got {towards!r}")
    if max_words < 1:
        raise UserError(f"max_words: expected at least 1, got {max_words}")
    opinion = Opinion(VADER() if judge is None else judge)
    return SequenceEnv(
        OnHost(opinion, num_classes=len(CLASSES), takes=opinion.takes, reads=Spelling(alphabet)),
        CLASSES.index(towards),
        num_symbols=alphabet.num_tokens,
        length=(1, max_words),
        end=alphabet.end,
        offered=Offered(symbols=alphabet.written, action_set_size=alphabet.num_tokens if size is None else size),
        guide=Guide(weight=CONVICTION, effects=_moods(opinion.judge, alphabet, towards), every_end=True),
    )


def task(
    author: Author | LanguageModel,
    sentence: str,
    *,
    judge: SentenceJudge | None = None,
    towards: Towards = "positive",
    max_words: int = 10,
    goal: Goal | None = reached,
) -> Task:
    """Give a sentence the wanted sentiment, in this author's voice or a Hugging Face model's; see `sentence_env`.

    What is offered are the words of the author's corpus and those of the sentence. Its path is `paths` of the task.
    """
    if isinstance(author, Author):
        vocabulary = author.vocabulary.join(words_of(sentence))
        joined = jnp.arange(JOINED) < len(vocabulary.joined)
        model = replace(author.policy, room=max_words + 2, joined=joined)
        alphabet: Alphabet = vocabulary
        size = len(author.vocabulary.words)
    else:
        alphabet, model, size = author, author.policy(max_words + 2), author.num_tokens
    env = sentence_env(alphabet, judge=judge, towards=towards, max_words=max_words, size=size)
    return Task(env, model, goal=goal)


def paths(task: Task, sentences: Sequence[str]) -> Paths:
    """Sentences as paths of a task of sentences, with their actions.

    Raises:
        TypeError: the task's world has no sentences.
        ValueError: one is empty or longer than the task allows, or has a word that its alphabet lacks.
    """
    alphabet, most = _alphabet(task), task.env.length
    rows = [alphabet.tokens_of(sentence) for sentence in sentences]
    for sentence, row in zip(sentences, rows, strict=True):
        if not 1 <= len(row) <= most:
            raise UserError(f"sentence: expected 1 to {most} words, got {len(row)} in {sentence!r}")
    return task.env.paths(rows)


def texts(task: Task, paths: Paths) -> list[str]:
    """The sentences of paths of a task of sentences.

    Raises:
        TypeError: the task's world has no sentences.
    """
    alphabet = _alphabet(task)
    return [alphabet.text_of(symbols[1:]) for symbols in paths.to_lists()]


def log_probs(author: Author | LanguageModel, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
    """log P of each sentence under an author, whose end counts, or a Hugging Face model, where it does not."""
    if isinstance(author, Author):
        return sentence_log_probs(author, [words_of(text) for text in texts])
    return np.array([row.sum() for row in author.log_probs(texts)])


def _alphabet(task: Task) -> Alphabet:
    spelling = getattr(getattr(task.env, "classifier", None), "reads", None)
    if not isinstance(spelling, Spelling):
        raise TypeError(f"task: expected one of `text.task`, or of a `text.sentence_env`, got {task}")
    return spelling.alphabet


def _moods(judge: SentenceJudge, alphabet: Alphabet, towards: Towards) -> Float[np.ndarray, " V"]:
    """What a judge that goes by words thinks of each word alone, above what it thinks of none; 0 of any other judge."""
    if not getattr(judge, "by_words", False):
        return np.zeros(alphabet.num_tokens, np.float32)
    texts = [alphabet.text_of([t]) if there else "" for t, there in enumerate(alphabet.written)]
    scores = np.array([_mood(judge, text) for text in texts]) - _mood(judge, "")
    return (scores if towards == "positive" else -scores).astype(np.float32)


@functools.cache
def _mood(judge: SentenceJudge, text: str) -> float:
    return float(judge([text])[0])
