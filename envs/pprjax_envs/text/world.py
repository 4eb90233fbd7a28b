"""TextEnv: a sentence that should sound otherwise, in its author's own voice.

After the text experiment of Personalized Path Recourse (arXiv 2312.08724): a language model of one author's writing is
the agent, a judge of sentiment is the goal, and "she was sad" is to become positive as this author would have put it.

    author, _ = text.trained(text.corpus.bible("psalms"))
    task = text.task(author, "She was sad")
    front = pprjax.frontier(task, task.env.paths(["She was sad"]), text.settings.SETTINGS, calls=0)
    task.env.check()
    task.env.texts(front.paths)
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.goals import Goal, reached
from pprjax.paths import PAD, Paths
from pprjax.task import Task
from pprjax_envs.quick_gymnax import environment, spaces
from pprjax_envs.text.agents import Author, sentence_log_probs
from pprjax_envs.text.corpus import JOINED, words_of
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.judges import VADER, SentenceJudge
from pprjax_envs.traced import traced_params

CONVICTION = 2.0
"""What the judge's opinion of a prefix weighs while a search goes on, beside the same opinion of a sentence: what turns
a judge is often a word that the author finds unlikely there, and pays only later."""

Towards = Literal["positive", "negative"]


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


@struct.dataclass
class TextState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], tokens chosen
    prefix: jax.Array  # int32[T], the tokens chosen, PAD after them
    symbol: jax.Array  # int32[], the last one; V before the first
    score: jax.Array  # float[], how much of the wanted sentiment the judge finds in them
    met: jax.Array  # bool[], and whether that is enough


@struct.dataclass(kw_only=True)
class TextParams(environment.EnvParams):
    written: jax.Array  # bool[V], the tokens that are offered, the end apart
    moods: jax.Array  # float[V], how much of the wanted sentiment each word alone adds to a sentence, as a guess
    end: jax.Array  # int32[], the token that ends a sentence
    size: jax.Array  # int32[], A of Eq. 4
    reader: jax.Array  # int32[], the number of the reader on the host


@traced_params
class TextEnv(environment.Environment[TextState, TextParams]):
    """Sentences, written token by token. The end pays how much of the wanted sentiment a judge finds, in [0, 1].

    An action is the next token, any that the alphabet may write; a path starts before its first token and ends with the
    end, so that edits count words alone. The judge reads each prefix once, as if it ended there: a search follows what
    it finds, and what an end pays is known before it is chosen.

    The judge runs on the host. What it raises does not stop a program: its score is NaN, and `check` raises it. Worlds
    of one size compare equal, whatever their alphabet and judge, so they share one compilation.

    Args:
        alphabet: the tokens.
        judge: how positive sentences are; default VADER.
        towards: the wanted sentiment.
        max_words: tokens of a sentence at most, the end apart.
        size: A of Eq. 4; default V.

    Raises:
        ValueError: a setting is out of range.
    """

    deterministic = True

    def __init__(
        self,
        alphabet: Alphabet,
        *,
        judge: SentenceJudge | None = None,
        towards: Towards = "positive",
        max_words: int = 10,
        size: int | None = None,
    ):
        if towards not in ("positive", "negative"):
            raise UserError(f"towards: expected positive or negative, got {towards!r}")
        if max_words < 1:
            raise UserError(f"max_words: expected at least 1, got {max_words}")
        self.num_tokens, self.max_words = alphabet.num_tokens, max_words
        self._alphabet, self._reader = alphabet, _Reader(VADER() if judge is None else judge, alphabet, towards)
        self._params = TextParams(
            max_steps_in_episode=max_words + 1,
            written=jnp.asarray(alphabet.written),
            moods=jnp.asarray(_moods(self._reader.judge, alphabet, towards), jnp.float32),
            end=jnp.int32(alphabet.end),
            size=jnp.int32(alphabet.num_tokens if size is None else size),
            reader=jnp.int32(self._reader.number),
        )

    @property
    def _shape(self) -> tuple:
        return self.num_tokens, self.max_words

    @property
    def default_params(self) -> TextParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self.num_tokens

    def action_set_size(self, params: TextParams) -> Int[Array, ""]:
        return params.size

    def paths(self, sentences: Sequence[str]) -> Paths:
        """Sentences as paths of this world, with their actions.

        Raises:
            ValueError: one is empty or longer than max_words, or has a word that the alphabet lacks.
        """
        rows = []
        for sentence in sentences:
            tokens = self._alphabet.tokens_of(sentence).tolist()
            if not 1 <= len(tokens) <= self.max_words:
                raise UserError(f"sentence: expected 1 to {self.max_words} words, got {len(tokens)} in {sentence!r}")
            rows.append([*tokens, self._alphabet.end])
        return Paths.from_lists([[self.num_tokens, *row] for row in rows], rows)

    def texts(self, paths: Paths) -> list[str]:
        """The sentences of paths of this world."""
        return [self._alphabet.text_of(symbols[1:]) for symbols in paths.to_lists()]

    def check(self) -> None:
        """Raise what the judge raised, if it did."""
        self._reader.check()

    def reset_env(self, key: jax.Array, params: TextParams) -> tuple[Array, TextState]:
        state = TextState(
            time=jnp.int32(0),
            prefix=jnp.full(self.max_words + 1, PAD, jnp.int32),
            symbol=jnp.int32(self.num_tokens),
            score=jnp.float32(0.0),
            met=jnp.bool_(False),
        )
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: TextState, action, params: TextParams):
        """One more token. A sentence that is complete stays as it is."""
        full = self.is_terminated(state, params)
        token = jnp.asarray(action, jnp.int32)
        prefix = jnp.where(jnp.arange(self.max_words + 1) == state.time, token, state.prefix)
        asked = ~full & jnp.where(prefix == PAD, True, params.written[prefix]).all()  # else it is no sentence
        shapes = jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.bool_)
        score, met = jax.pure_callback(_judged, shapes, params.reader, prefix, asked, vmap_method="broadcast_all")
        longer = TextState(
            time=state.time,
            prefix=prefix,
            symbol=token,
            score=jnp.where(asked, score, state.score),
            met=jnp.where(asked, met, state.met),
        )
        following = jax.tree.map(lambda old, new: jnp.where(full, old, new), state, longer)
        following = following.replace(time=state.time + 1)
        reward = jnp.where(full | (token != params.end), 0.0, state.score)
        observation = self.observe(key, following, action, params)
        return observation, following, reward, self.is_terminated(following, params), {}

    def available(self, state: TextState, params: TextParams) -> Bool[Array, " V"]:
        """No end before the first word, and nothing but the end after the last."""
        end = jnp.arange(self.num_tokens) == params.end
        return jnp.where(end, state.time > 0, params.written & (state.time < self.max_words))

    def observe(self, key: jax.Array, state: TextState, action, params: TextParams) -> Float[Array, " T"]:
        """The tokens chosen, by their numbers."""
        del key, action, params
        return state.prefix.astype(jnp.float32)

    def is_terminated(self, state: TextState, params: TextParams) -> Bool[Array, ""]:
        return (state.symbol == params.end) | (state.time > self.max_words)

    def action_space(self, params: TextParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: TextParams | None = None) -> spaces.Box:
        del params
        return spaces.Box(PAD, self.num_tokens, (self.max_words + 1,))

    def state_space(self, params: TextParams) -> spaces.Dict:
        return spaces.Dict({"time": spaces.Discrete(params.max_steps_in_episode + 1)})

    def symbol(self, state: TextState, params: TextParams) -> Int[Array, ""]:
        """The last token; V before the first."""
        del params
        return state.symbol

    def next_symbols(self, state: TextState, params: TextParams) -> Int[Array, " V"]:
        """An action is the token that follows."""
        del state, params
        return jnp.arange(self.num_tokens)

    def end_action(self, state: TextState, params: TextParams) -> Int[Array, ""]:
        """The end."""
        del state
        return params.end

    def promise(self, state: TextState, params: TextParams) -> Float[Array, ""]:
        """How much of the wanted sentiment the judge finds so far, times CONVICTION."""
        del params
        return CONVICTION * state.score

    def next_promise(self, state: TextState, params: TextParams) -> Float[Array, " V"]:
        """The same after each word, if the judge thinks of them together what it thinks of each."""
        return CONVICTION * jnp.clip(state.score + params.moods, 0.0, 1.0)

    def goal_bound(self, params: TextParams) -> Float[Array, ""]:
        """The end pays at most 1."""
        del params
        return jnp.ones(())

    def reached_goal(self, state: TextState, params: TextParams) -> Bool[Array, ""]:
        """Whether the sentence is complete and has the wanted sentiment."""
        return (state.symbol == params.end) & state.met


def task(
    author: Author | LanguageModel,
    sentence: str,
    *,
    judge: SentenceJudge | None = None,
    towards: Towards = "positive",
    max_words: int = 10,
    goal: Goal | None = reached,
) -> Task:
    """Give a sentence the wanted sentiment, in this author's voice or a Hugging Face model's; see `TextEnv`.

    What is offered are the words of the author's corpus and those of the sentence. Its path: `task.env.paths`.
    """
    if isinstance(author, Author):
        vocabulary = author.vocabulary.join(words_of(sentence))
        joined = jnp.arange(JOINED) < len(vocabulary.joined)
        model = replace(author.policy, room=max_words + 2, joined=joined)
        alphabet: Alphabet = vocabulary
        size = len(author.vocabulary.words)
    else:
        alphabet, model, size = author, author.policy(max_words + 2), author.num_tokens
    env = TextEnv(alphabet, judge=judge, towards=towards, max_words=max_words, size=size)
    return Task(env, model, goal=goal)


def log_probs(author: Author | LanguageModel, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
    """log P of each sentence under an author, whose end counts, or a Hugging Face model, where it does not."""
    if isinstance(author, Author):
        return sentence_log_probs(author, [words_of(text) for text in texts])
    return np.array([row.sum() for row in author.log_probs(texts)])


class _Reader:
    """A judge on the host, which remembers what it has read."""

    def __init__(self, judge: SentenceJudge, alphabet: Alphabet, towards: Towards):
        self.judge, self._alphabet, self._towards = judge, alphabet, towards
        self._known: dict[bytes, tuple[float, bool]] = {}
        self._error: Exception | None = None
        self.number = next(_NUMBERS)
        _READERS[self.number] = self

    def check(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def read(self, prefixes: Int[np.ndarray, "B T"]) -> list[tuple[float, bool]]:
        keys = [row.tobytes() for row in prefixes]
        new = list({key: row for key, row in zip(keys, prefixes, strict=True) if key not in self._known}.items())
        try:
            if new:
                scores = np.asarray(self.judge([self._alphabet.text_of(row[row != PAD]) for _, row in new]), float)
                reached = self.judge.reached(scores, self._towards)
                wanted = scores if self._towards == "positive" else 1.0 - scores
                if len(self._known) > _REMEMBERED:
                    self._known = {}
                self._known |= {key: (float(s), bool(r)) for (key, _), s, r in zip(new, wanted, reached, strict=True)}
            return [self._known[key] for key in keys]
        except Exception as error:  # one may not leave a callback; `check` raises it
            self._error = error
            return [(float("nan"), False)] * len(keys)


def _moods(judge: SentenceJudge, alphabet: Alphabet, towards: Towards) -> Float[np.ndarray, " V"]:
    """What a judge that goes by words thinks of each word alone, above what it thinks of none; 0 of any other judge."""
    if not getattr(judge, "by_words", False):
        return np.zeros(alphabet.num_tokens)
    texts = [alphabet.text_of([t]) if there else "" for t, there in enumerate(alphabet.written)]
    scores = np.array([_mood(judge, text) for text in texts]) - _mood(judge, "")
    return scores if towards == "positive" else -scores


@functools.cache
def _mood(judge: SentenceJudge, text: str) -> float:
    return float(judge([text])[0])


_NUMBERS = itertools.count()
_READERS: weakref.WeakValueDictionary[int, _Reader] = weakref.WeakValueDictionary()
_REMEMBERED = 1_000_000


def _judged(number, prefixes, asked) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the prefixes that are asked for, 0 for the others. Takes any leading axes."""
    number, prefixes, asked = np.asarray(number), np.asarray(prefixes), np.asarray(asked)
    scores, met = np.zeros(asked.shape, np.float32), np.zeros(asked.shape, bool)
    for reader in np.unique(number[asked]):
        at = asked & (number == reader)
        found = _READERS[int(reader)].read(prefixes[at])
        scores[at], met[at] = [s for s, _ in found], [m for _, m in found]
    return scores, met
