"""Authors: a vocabulary and a transformer that writes in one author's voice, which serves as P_A."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Float

from pprjax.errors import UserError
from pprjax.paths import PAD
from pprjax_envs import weights
from pprjax_envs.sequence import log_probs
from pprjax_envs.text.corpus import END, JOINED, UNKNOWN, Corpus, Vocabulary, vocabulary
from pprjax_envs.text.training import Training, blank_params, train
from pprjax_envs.text.transformer import Architecture, TransformerPolicy


@struct.dataclass
class Author:
    """An author's vocabulary and voice."""

    name: str = struct.field(pytree_node=False)
    vocabulary: Vocabulary = struct.field(pytree_node=False)
    policy: TransformerPolicy
    perplexity: jax.Array  # float[], a token of held-out sentences, ends included


def trained(
    corpus: Corpus,
    training: Training = Training(),
    shape: Architecture = Architecture(),
    *,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
    watch: Callable[[int, float], None] | None = None,
) -> tuple[Author, bool]:
    """An author trained on a corpus, read back if that was done before with these settings; and whether it was.

    A training that was killed goes on from its last checkpoint, and gives what it would have given.

    Args:
        folder: where weights are kept; default `weights.cache_folder()`.
        watch: called with the steps done and the held-out perplexity so far, infinite at first.
    """
    words = vocabulary(corpus, training.vocabulary)
    text = np.frombuffer("\n".join(map(" ".join, corpus.sentences)).encode(), np.uint8)
    name = "text-" + weights.digest(text, repr((training, shape)), seed)
    root = weights.chosen_folder(folder)
    made, reloaded = weights.remembered(
        name,
        lambda: train(corpus, words, training, shape, seed=seed, checkpoints=root / f"{name}.part", watch=watch),
        like=lambda: (blank_params(words, training, shape, seed), jnp.zeros(())),
        folder=root,
    )
    params, perplexity = made
    policy = TransformerPolicy(
        params=params,
        shape=shape,
        known=jnp.arange(words.size) < len(words.words),
        joined=jnp.ones(JOINED, bool),
        log_rare=jnp.log(jnp.float32(max(words.num_rare, JOINED))),  # so many may join, and share what UNKNOWN has
        num_tokens=words.size,
    )
    return Author(name=corpus.name, vocabulary=words, policy=policy, perplexity=perplexity), reloaded


def sentence_log_probs(author: Author, sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, " N"]:
    """log P of each sentence, a list of words, its end included; words that the author never used count as rare ones.

    Raises:
        ValueError: a sentence is longer than the author's memory.
    """
    longest = max(map(len, sentences), default=0)
    if longest >= author.policy.room:
        raise UserError(f"sentences: expected at most {author.policy.room - 1} words, got {longest}")
    own = [author.vocabulary.encode(words) for words in sentences]
    start, room = author.vocabulary.num_tokens, -(-(longest + 1) // 8) * 8
    tokens = np.full((len(sentences), room), PAD, np.int32)
    for row, ids in zip(tokens, own, strict=True):
        ids = np.where(ids == UNKNOWN, author.vocabulary.size, ids)  # any that joined: all are as likely
        row[: len(ids) + 1] = [*ids, END]
    return np.where(tokens == PAD, 0.0, log_probs(author.policy, tokens, start)).sum(1)
