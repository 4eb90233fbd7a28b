"""TextEnv: a sentence that should sound otherwise, in its author's own voice.

After the text experiment of Personalized Path Recourse (arXiv 2312.08724): a language model of one author's writing is
the agent, a judge of sentiment is the goal, and "she was sad" is to become positive as this author would have put it.

    author, _ = text.trained(text.corpus.bible("psalms"))
    task = text.task(author, "She was sad")
    config = text.settings.SETTINGS.replace(lambda_path=10.0)
    found = pprjax.recourse(task, task.env.original, config, method="learn", key=jax.random.key(0))
    task.env.check()
    task.env.texts(found.paths)
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.goals import Goal, reached
from pprjax.paths import PAD, Paths
from pprjax.policy import Carry, Policy
from pprjax.task import Task
from pprjax_envs.quick_gymnax import environment, spaces
from pprjax_envs.sequence import SymbolOnly
from pprjax_envs.text.agents import Author, sentence_log_probs
from pprjax_envs.text.corpus import JOINED, words_of
from pprjax_envs.text.huggingface import LanguageModel
from pprjax_envs.text.judges import VADER, Judge
from pprjax_envs.traced import traced_params

EMBEDDED = 2048
"""Rows of the Q-network's table of words, which words share by their numbers: a search meets a few hundred."""

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
    carry: Any  # of the language model, after the tokens chosen
    offers: jax.Array  # int32[A], the token that each action chooses; PAD: none
    log_probs: jax.Array  # float[A], log P_A of each
    ended: jax.Array  # bool[], the end was chosen
    met: jax.Array  # bool[], and the sentence has the wanted sentiment


@struct.dataclass(kw_only=True)
class TextParams(environment.EnvParams):
    model: Any  # a Policy over V tokens, which reads `state.symbol`
    own: jax.Array  # int32[O], the end and the words of the original; PAD after them
    size: jax.Array  # int32[], A of Eq. 4
    reader: jax.Array  # int32[], the number of the reader on the host


@struct.dataclass
class Offered:
    """P_A of the tokens that are offered, which a TextState carries."""

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: TextState) -> tuple[Carry, Float[Array, " A"]]:
        return carry, state.log_probs


@traced_params
class TextEnv(environment.Environment[TextState, TextParams]):
    """One sentence, rewritten token by token. The end pays how much of the wanted sentiment a judge finds, in [0, 1].

    An action is the next token: the end, a word of the original, or one of the m that P_A finds likeliest after the
    tokens so far; a path starts before its first token and ends with the end, so that edits count words alone. A in
    Eq. 4 is the size of the whole vocabulary, which is what the agent chooses from: a word is liked (h > 0) if it is
    likelier than one drawn at random.

    The judge runs on the host. What it raises does not stop a rollout: its reward is NaN, and `check` raises it.
    Worlds of one size compare equal, whatever their language, original and judge, so they share one compilation.

    Args:
        model: P(next token | tokens so far), a Policy that reads `state.symbol`.
        alphabet: its tokens.
        sentence: the original.
        judge: how positive sentences are; default VADER.
        towards: the wanted sentiment.
        max_words: tokens of a sentence at most, the end apart.
        num_best: m.
        size: A of Eq. 4; default V.

    Raises:
        ValueError: the sentence is empty or longer than max_words, or a setting is out of range.
    """

    deterministic = True

    def __init__(
        self,
        model: Policy,
        alphabet: Alphabet,
        sentence: str,
        *,
        judge: Judge | None = None,
        towards: Towards = "positive",
        max_words: int = 10,
        num_best: int = 64,
        size: int | None = None,
    ):
        if towards not in ("positive", "negative"):
            raise ValueError(f"towards: expected positive or negative, got {towards!r}")
        for name, value, high in (("max_words", max_words, None), ("num_best", num_best, alphabet.num_tokens)):
            if value < 1 or (high is not None and value > high):
                raise ValueError(f"{name}: expected at least 1{f' and at most {high}' * bool(high)}, got {value}")
        self.num_tokens, self.max_words, self.num_best = alphabet.num_tokens, max_words, num_best
        self._tokens = np.asarray(alphabet.tokens_of(sentence), np.int32)
        if not 1 <= len(self._tokens) <= max_words:
            raise ValueError(f"sentence: expected 1 to {max_words} words, got {len(self._tokens)} in {sentence!r}")
        self._alphabet, self._reader = alphabet, _Reader(VADER() if judge is None else judge, alphabet, towards)
        own = np.full(max_words + 1, PAD, np.int32)
        distinct = list(dict.fromkeys([alphabet.end, *self._tokens.tolist()]))
        own[: len(distinct)] = distinct
        self._params = TextParams(
            max_steps_in_episode=max_words + 1,
            model=model,
            own=jnp.asarray(own),
            size=jnp.int32(alphabet.num_tokens if size is None else size),
            reader=jnp.int32(self._reader.number),
        )

    @property
    def _shape(self) -> tuple:
        return self.num_tokens, self.max_words, self.num_best

    @property
    def default_params(self) -> TextParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self.max_words + 1 + self.num_best

    def action_set_size(self, params: TextParams) -> Int[Array, ""]:
        return params.size

    @property
    def original(self) -> Paths:
        """The original sentence as a path, with its actions."""
        own = np.asarray(self._params.own)
        tokens = [*self._tokens.tolist(), self._alphabet.end]
        return Paths.from_lists([[self.num_tokens, *tokens]], [[int(np.flatnonzero(own == t)[0]) for t in tokens]])

    def texts(self, paths: Paths) -> list[str]:
        """The sentences of paths of this world."""
        return [self._alphabet.text_of(symbols[1:]) for symbols in paths.to_lists()]

    def check(self) -> None:
        """Raise what the judge raised, if it did."""
        self._reader.check()

    def reset_env(self, key: jax.Array, params: TextParams) -> tuple[Array, TextState]:
        carry, offers, log_probs = self._offer(params, params.model.init(), jnp.int32(self.num_tokens))
        state = TextState(
            time=jnp.int32(0),
            prefix=jnp.full(self.max_words + 1, PAD, jnp.int32),
            carry=carry,
            offers=offers,
            log_probs=log_probs,
            ended=jnp.bool_(False),
            met=jnp.bool_(False),
        )
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: TextState, action, params: TextParams):
        """One more token. A sentence that is complete stays as it is."""
        full = self.is_terminated(state, params)
        token = state.offers[jnp.asarray(action, jnp.int32)]
        carry, offers, log_probs = self._offer(params, state.carry, token)
        prefix = jnp.where(jnp.arange(self.max_words + 1) == state.time, token, state.prefix)
        ended = (token == params.own[0]) & ~full
        shapes = jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.bool_)
        score, met = jax.pure_callback(_judged, shapes, params.reader, prefix, ended, vmap_method="broadcast_all")
        longer = TextState(
            time=state.time, prefix=prefix, carry=carry, offers=offers, log_probs=log_probs, ended=ended, met=met
        )
        following = jax.tree.map(lambda old, new: jnp.where(full, old, new), state, longer)
        following = following.replace(time=state.time + 1)
        reward = jnp.where(ended, score, 0.0)
        observation = self.observe(key, following, action, params)
        return observation, following, reward, self.is_terminated(following, params), {}

    def _offer(self, params: TextParams, carry: Any, token: Int[Array, ""]):
        """The carry after this token, and what may follow: the original's own, then the m likeliest others."""
        carry, log_probs = params.model.step(carry, SymbolOnly(token))
        own = jnp.where(params.own == PAD, -jnp.inf, log_probs[params.own])
        others = log_probs.at[jnp.where(params.own == PAD, self.num_tokens, params.own)].set(-jnp.inf, mode="drop")
        likely, best = jax.lax.top_k(others, self.num_best)
        offers = jnp.concatenate([params.own, jnp.where(jnp.isfinite(likely), best.astype(jnp.int32), PAD)])
        return carry, offers, jnp.concatenate([own, likely])

    def available(self, state: TextState, params: TextParams) -> Bool[Array, " A"]:
        """What is offered; no end before the first word, and nothing but the end after the last."""
        end = state.offers == params.own[0]
        allowed = jnp.where(end, state.time > 0, state.time < self.max_words)
        return (state.offers != PAD) & jnp.isfinite(state.log_probs) & allowed

    def observe(self, key: jax.Array, state: TextState, action, params: TextParams) -> Float[Array, " T+A"]:
        """The tokens chosen and those offered, by their numbers."""
        del key, action, params
        return jnp.concatenate([state.prefix, state.offers]).astype(jnp.float32)

    def encoder(self, width: int) -> nn.Module:
        """How a Q-network reads an observation."""
        return Reading(width=width, room=self.max_words + 1)

    def is_terminated(self, state: TextState, params: TextParams) -> Bool[Array, ""]:
        del params
        return state.ended | (state.time > self.max_words)

    def action_space(self, params: TextParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: TextParams | None = None) -> spaces.Box:
        del params
        return spaces.Box(PAD, self.num_tokens, (self.max_words + 1 + self.num_actions,))

    def state_space(self, params: TextParams) -> spaces.Dict:
        return spaces.Dict({"time": spaces.Discrete(params.max_steps_in_episode + 1)})

    def symbol(self, state: TextState, params: TextParams) -> Int[Array, ""]:
        """The last token; V before the first."""
        del params
        return jnp.where(state.time > 0, state.prefix[jnp.maximum(state.time - 1, 0)], self.num_tokens)

    def action_to(self, state: TextState, symbol: Int[Array, ""], params: TextParams) -> Int[Array, ""]:
        """The action that chooses this token; PAD where it is not offered."""
        del params
        offered = state.offers == symbol
        return jnp.where(offered.any(), jnp.argmax(offered), PAD).astype(jnp.int32)

    def reached_goal(self, state: TextState, params: TextParams) -> Bool[Array, ""]:
        """Whether the sentence is complete and has the wanted sentiment."""
        del params
        return state.ended & state.met


class Reading(nn.Module):
    """A small transformer's reading of a prefix: its last token attends to all; and a vector for each token offered."""

    width: int
    room: int  # T

    @nn.compact
    def __call__(self, observation: Float[Array, " T+A"]) -> tuple[Float[Array, " w"], Float[Array, "A w"]]:
        tokens = observation.astype(jnp.int32)
        prefix, offers = tokens[: self.room], tokens[self.room :]
        length = jnp.sum(prefix != PAD)
        embed = nn.Embed(EMBEDDED, self.width, name="words")
        place = self.param("place", nn.initializers.normal(self.width**-0.5), (self.room, self.width))
        words = embed(prefix % EMBEDDED) + place
        last = jnp.where(length > 0, words[jnp.maximum(length - 1, 0)], 0.0)
        query = nn.Dense(self.width, name="query")(last)
        keys, values = jnp.split(nn.Dense(2 * self.width, name="keys")(words), 2, axis=-1)
        scores = jnp.where(prefix != PAD, keys @ query * self.width**-0.5, -1e9)
        offered = nn.Embed(EMBEDDED, self.width, embedding_init=nn.initializers.zeros, name="offers")
        return last + jax.nn.softmax(scores) @ values, offered(offers % EMBEDDED)


def task(
    author: Author | LanguageModel,
    sentence: str,
    *,
    judge: Judge | None = None,
    towards: Towards = "positive",
    max_words: int = 10,
    num_best: int = 64,
    goal: Goal | None = reached,
) -> Task:
    """Give one sentence the wanted sentiment, in this author's voice or a Hugging Face model's; see `TextEnv`."""
    if isinstance(author, Author):
        vocabulary = author.vocabulary.join(words_of(sentence))
        joined = jnp.arange(JOINED) < len(vocabulary.joined)
        model = replace(author.policy, room=max_words + 2, joined=joined)
        alphabet: Alphabet = vocabulary
        size = len(author.vocabulary.words)
    else:
        alphabet, model, size = author, author.policy(max_words + 2), author.num_tokens
    options: dict[str, Any] = dict(judge=judge, towards=towards, max_words=max_words, num_best=num_best, size=size)
    env = TextEnv(model, alphabet, sentence, **options)
    return Task(env, Offered(), goal=goal)


def log_probs(author: Author | LanguageModel, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
    """log P of each sentence under an author, whose end counts, or a Hugging Face model, where it does not."""
    if isinstance(author, Author):
        return sentence_log_probs(author, [words_of(text) for text in texts])
    return np.array([row.sum() for row in author.log_probs(texts)])


class _Reader:
    """A judge on the host, which remembers what it has read."""

    def __init__(self, judge: Judge, alphabet: Alphabet, towards: Towards):
        self._judge, self._alphabet, self._towards = judge, alphabet, towards
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
                scores = np.asarray(self._judge([self._alphabet.text_of(row[row != PAD]) for _, row in new]), float)
                reached = self._judge.reached(scores, self._towards)
                wanted = scores if self._towards == "positive" else 1.0 - scores
                if len(self._known) > _REMEMBERED:
                    self._known = {}
                self._known |= {key: (float(s), bool(r)) for (key, _), s, r in zip(new, wanted, reached, strict=True)}
            return [self._known[key] for key in keys]
        except Exception as error:  # one may not leave a callback; `check` raises it
            self._error = error
            return [(float("nan"), False)] * len(keys)


_NUMBERS = itertools.count()
_READERS: weakref.WeakValueDictionary[int, _Reader] = weakref.WeakValueDictionary()
_REMEMBERED = 1_000_000


def _judged(number, prefixes, ended) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the complete sentences among these, 0 for the others. Takes any leading axes."""
    number, prefixes, ended = np.asarray(number), np.asarray(prefixes), np.asarray(ended)
    scores, met = np.zeros(ended.shape, np.float32), np.zeros(ended.shape, bool)
    for reader in np.unique(number[ended]):
        at = ended & (number == reader)
        found = _READERS[int(reader)].read(prefixes[at])
        scores[at], met[at] = [s for s, _ in found], [m for _, m in found]
    return scores, met
