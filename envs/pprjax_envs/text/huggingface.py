"""P_A from Hugging Face: any causal language model, on the host.

    model = LanguageModel("path/to/model")
    policy = model.policy(max_length=14)  # keep the model as long as the policy
    ...
    model.check()

Needs the extra `hf`. Nothing is downloaded unless that is asked for.
"""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.errors import UserError
from pprjax_envs.registry import register
from pprjax_envs.text.huggingface_policy import HuggingFacePolicy
from pprjax_envs.text.pretrained import load

MEMORY = 2**30
"""Bytes that a model's known prefixes may take."""


class LanguageModel:
    """A causal language model on the host, and its alphabet. Safe to call from several threads.

    Keys and values of the prefixes used last are kept, and so are their log-probabilities: a prefix is run once, from
    the longest prefix of it that is known, many in one padded batch. A model without such keys and values (recurrent,
    with a sliding window, or without position numbers) reads each new prefix from its start.

    Args:
        model: a folder, a GGUF file, or the id of a model on the hub.
        device: as PyTorch names it.
        dtype: the weights' type, as PyTorch names it.
        batch_size: prefixes run at once, at least 1.
        memory: bytes that what is kept may take.
        start: the token that a text begins with; default the tokenizer's own for it, or else its end.
        end: the token that ends a text; default the tokenizer's own for it.
        download: fetch from the hub what is not here.

    Raises:
        ValueError: the extra `hf` is missing, an argument is out of range, the device, the type, the model or a token
            is unknown, or the tokenizer has more tokens than the model.
        OSError: there is no such model, or a file of it is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        batch_size: int = 64,
        memory: int = MEMORY,
        start: str | None = None,
        end: str | None = None,
        download: bool = False,
    ):
        for name, value, least in (("batch_size", batch_size, 1), ("memory", memory, 0)):
            if value < least:
                raise UserError(f"{name}: expected at least {least}, got {value}")
        options: dict[str, Any] = dict(device=device, dtype=dtype, download=download)
        self.network, self.tokenizer = load("AutoModelForCausalLM", model, **options)
        self.name = model
        self.passes = 0
        """Prefixes run through the model so far."""
        self._device, self._batch_size, self._memory = device, batch_size, memory
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._kept: OrderedDict[bytes, _Node] = (
            OrderedDict()
        )  # by the bytes of the prefix, the one used last at the end
        self._bytes = 0
        self.end: int = self._special("end", end, self.tokenizer.eos_token_id)
        self.start: int = self._special("start", start, self.tokenizer.bos_token_id, self.end)
        self.max_length: int | None = getattr(self.network.config, "max_position_embeddings", None)
        """Tokens of a prefix at most, the start included; None if there is no limit."""
        self._probe()
        if len(self.tokenizer) > self.num_tokens:
            raise UserError(
                f"model: expected at most {self.num_tokens} tokens, as many as the model has, got a tokenizer with "
                f"{len(self.tokenizer)}"
            )
        self._number = register(self)

    def policy(self, max_length: int) -> HuggingFacePolicy:
        """This model as P_A.

        Args:
            max_length: L, tokens of a prefix at most, the start included.

        Raises:
            ValueError: max_length is below 1, or more than the model reads.
        """
        if not 1 <= max_length <= (self.max_length or max_length):
            most = "" if self.max_length is None else f" and at most {self.max_length}, which the model reads"
            raise UserError(f"max_length: expected at least 1{most}, got {max_length}")
        return HuggingFacePolicy(handle=jnp.int32(self._number), num_tokens=self.num_tokens, max_length=max_length)

    @property
    def written(self) -> Bool[np.ndarray, " V"]:
        """Which tokens a sentence may have: not those that mean something to the model alone, as its start does, and no
        line breaks."""
        return self._written

    @cached_property
    def _written(self) -> Bool[np.ndarray, " V"]:
        texts = self.tokenizer.batch_decode([[token] for token in range(len(self.tokenizer))])
        whole = np.array([not {"\n", "\r"} & set(text) for text in texts])
        own = np.append(whole, np.zeros(self.num_tokens - len(whole), bool))
        own[[self.end, self.start, *self.tokenizer.all_special_ids]] = False
        return own

    def tokens_of(self, text: str) -> Int[np.ndarray, " n"]:
        """The tokens of a sentence, without start and end.

        Raises:
            ValueError: it has none, or the model has no token for a part of it.
        """
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not tokens:
            raise UserError(f"text: expected at least one token, got {text!r}")
        if self.tokenizer.unk_token_id in tokens:
            raise UserError(f"text: expected words that the model has tokens for, got {text!r}")
        return np.asarray(tokens, np.int32)

    def text_of(self, tokens: Sequence[int] | Int[np.ndarray, " n"]) -> str:
        """The sentence of these tokens; start and end are left out."""
        kept = [int(token) for token in tokens if token not in (self.start, self.end, self.num_tokens)]
        return self.tokenizer.decode(kept, skip_special_tokens=True)

    def next_log_probs(self, prefixes: Sequence[Sequence[int] | Int[np.ndarray, " n"]]) -> Float[np.ndarray, "B V"]:
        """log P(next token | prefix), float32, up to rounding the same whatever was asked before or is asked at once.

        After the end only the end follows; that takes no pass.

        Args:
            prefixes: tokens in [0, V), or V for the start, with which a prefix should begin; not empty.

        Raises:
            ValueError: a prefix is empty or longer than the model reads, or has another token.
        """
        out = np.empty((len(prefixes), self.num_tokens), np.float32)
        rows: dict[bytes, list[int]] = {}
        for i, prefix in enumerate(prefixes):
            tokens = np.asarray(prefix, np.int32)
            if (tokens[1:] == self.end).any():
                out[i] = -np.inf
                out[i, self.end] = 0.0
            else:
                rows.setdefault(self._checked(i, tokens), []).append(i)
        with self._lock:
            new = []
            for key, where in rows.items():
                node = self._kept.get(key)
                if node is None or node.log_probs is None:
                    new.append(key)
                else:
                    out[where] = node.log_probs
                    self._touch(key)
            new.sort(key=lambda key: (self._depth(key) - len(key) // 4, len(key)))  # like with like: less to pad
            for low in range(0, len(new), self._batch_size):
                batch = new[low : low + self._batch_size]
                for key, log_probs in zip(batch, self._run(batch), strict=True):
                    out[rows[key]] = log_probs
        return out

    def log_probs(self, texts: Sequence[str]) -> list[Float[np.ndarray, " n"]]:
        """log P of each token of each sentence, float64, given the start and the tokens before it. Keeps nothing.

        Raises:
            ValueError: a sentence is empty, or longer than the model reads.
        """
        import torch

        rows = []
        for i, text in enumerate(texts):
            try:
                rows.append([self.start, *self.tokens_of(text).tolist()])
            except ValueError as error:
                raise UserError(f"texts[{i}]: {str(error).removeprefix('text: ')}") from error
            if self.max_length is not None and len(rows[i]) - 1 > self.max_length:
                raise UserError(f"texts[{i}]: expected at most {self.max_length} tokens, got {len(rows[i]) - 1}")
        found: list[Any] = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for low in range(0, len(rows), self._batch_size):
            batch = order[low : low + self._batch_size]
            with self._lock, torch.inference_mode():
                logits = self._read([rows[i][:-1] for i in batch])
                for i, row in zip(batch, logits, strict=True):
                    following = torch.tensor(rows[i][1:], device=row.device)
                    losses = torch.nn.functional.cross_entropy(
                        row[: len(following)].float(), following, reduction="none"
                    )
                    found[i] = -losses.double().cpu().numpy()
        return found

    def perplexity(self, texts: Sequence[str]) -> Float[np.ndarray, " N"]:
        """exp(-mean log P) over the tokens of each sentence, float64; see `log_probs`."""
        return np.array([np.exp(-row.mean()) for row in self.log_probs(texts)], np.float64)

    def check(self) -> None:
        """Raise, once and with its own type, what was raised in a rollout since the last check."""
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def fail(self, error: Exception) -> None:
        """Remember what was raised in a rollout, for `check`; the first error counts."""
        with self._lock:
            self._failure = self._failure or error

    @property
    def kept_bytes(self) -> int:
        """Bytes that what is kept takes now."""
        return self._bytes

    def _special(self, name: str, token: str | None, *defaults: int | None) -> int:
        if token is not None:
            number = self.tokenizer.get_vocab().get(token)
            if number is None:
                raise UserError(f"{name}: expected a token of the model, got {token!r}")
            return number
        number = next((x for x in defaults if x is not None), None)
        if number is None:
            raise UserError(f"{name}: the tokenizer of {self.name} has none of its own; name one of its tokens")
        return number

    def _probe(self) -> None:
        """Find V, and whether keys and values can be kept: how many numbers a token has in each."""
        import torch
        from transformers.cache_utils import DynamicCache, DynamicLayer

        takes = inspect.signature(self.network.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        with torch.inference_mode():
            ids = torch.tensor([[self.start]], device=self._device)
            answer = self.network(input_ids=ids, use_cache=True)
        self.num_tokens: int = answer.logits.shape[-1]
        self._cache = "cache" if "cache" in takes else "past_key_values"  # as newer and older transformers call it
        cache: Any = answer.get(self._cache)
        self._shapes: list[tuple[int, int]] | None = None  # heads and width, of the keys and values of each layer
        if (
            {"position_ids", self._cache, "attention_mask"} <= takes.keys()
            and type(cache) is DynamicCache
            and all(type(layer) is DynamicLayer and layer.is_initialized for layer in cache.layers)
        ):
            layers: Any = cache.layers
            self._shapes = [(x.shape[1], x.shape[3]) for layer in layers for x in (layer.keys, layer.values)]

    def _checked(self, i: int, tokens: Int[np.ndarray, " n"]) -> bytes:
        """The key of a prefix: its tokens' bytes, the start's own number in place of V."""
        if not len(tokens):
            raise UserError(f"prefixes[{i}]: expected at least one token, the start")
        if self.max_length is not None and len(tokens) > self.max_length:
            raise UserError(f"prefixes[{i}]: expected at most {self.max_length} tokens, got {len(tokens)}")
        outside = np.flatnonzero((tokens < 0) | (tokens > self.num_tokens))
        if outside.size:
            at = outside[0]
            raise UserError(f"prefixes[{i}][{at}]: expected a token in [0, {self.num_tokens}], got {tokens[at]}")
        return np.where(tokens == self.num_tokens, self.start, tokens).astype(np.int32).tobytes()

    def _depth(self, key: bytes) -> int:
        """How many of a prefix's tokens, the last apart, have their keys and values kept, from the start on."""
        if self._shapes is None:
            return 0
        most = len(key) // 4 - 1
        return next((k for k in range(most) if key[: 4 * (k + 1)] not in self._kept), most)

    def _touch(self, key: bytes) -> None:
        """Count a prefix as used now, and those that it goes on from as used later still: they are dropped after it."""
        for k in range(len(key), 0, -4):
            if key[:k] in self._kept:
                self._kept.move_to_end(key[:k])

    def _keep(self, key: bytes, node: _Node) -> None:
        before = self._kept.get(key)
        self._bytes += node.bytes - (before.bytes if before is not None else 0)
        self._kept[key] = node

    def _run(self, keys: list[bytes]) -> Float[np.ndarray, "B V"]:
        """The log-probabilities after prefixes that are not known yet; they are kept."""
        import torch

        self.passes += len(keys)
        tokens = [np.frombuffer(key, np.int32).tolist() for key in keys]
        pasts = [[self._kept[key[: 4 * k + 4]].past for k in range(self._depth(key))] for key in keys]
        with torch.inference_mode():
            if self._shapes is None:
                logits = self._read(tokens)
                last = torch.stack([row[len(prefix) - 1] for row, prefix in zip(logits, tokens, strict=True)])
                fresh = [[] for _ in keys]
            else:
                last, fresh = self._extend(tokens, pasts)
            log_probs = last.float().log_softmax(-1).cpu().numpy()
        for i, key in enumerate(keys):
            low = len(pasts[i]) + 1
            for k, past in enumerate(fresh[i][:-1], low):
                self._keep(key[: 4 * k], _Node(past, None))
            self._keep(key, _Node(fresh[i][-1] if fresh[i] else None, log_probs[i].copy()))
        for key in keys:
            self._touch(key)
        while self._bytes > self._memory:
            self._bytes -= self._kept.popitem(last=False)[1].bytes
        return log_probs

    def _read(self, tokens: list[list[int]]) -> Any:
        """[B, n, V], the logits after each token, of texts read from their start."""
        import torch

        longest = max(map(len, tokens))
        ids, mask = np.zeros((2, len(tokens), longest), np.int64)
        for i, row in enumerate(tokens):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
        given = {"input_ids": ids, "attention_mask": mask}
        return self.network(**{k: torch.from_numpy(x).to(self._device) for k, x in given.items()}).logits

    def _extend(self, tokens: list[list[int]], pasts: list[list[Any]]) -> tuple[Any, list[list[Any]]]:
        """[B, V], the logits after the last token of texts whose pasts are given, and each new token's own past.

        What is known and what is new both stand to the right of their halves of the row; the mask hides the rest.
        """
        import torch
        from transformers.cache_utils import DynamicCache

        assert self._shapes is not None
        known = max(map(len, pasts))
        new = max(len(row) - len(past) for row, past in zip(tokens, pasts, strict=True))
        ids, places = np.zeros((2, len(tokens), new), np.int64)
        mask = np.zeros((len(tokens), known + new), np.int64)
        sizes = [heads * width for heads, width in self._shapes]
        block = torch.zeros(len(tokens), known, sum(sizes), dtype=self.network.dtype, device=self._device)
        for i, (row, past) in enumerate(zip(tokens, pasts, strict=True)):
            rest = len(row) - len(past)
            ids[i, new - rest :], places[i, new - rest :] = row[len(past) :], range(len(past), len(row))
            mask[i, known - len(past) : known] = mask[i, known + new - rest :] = 1
            if past:
                block[i, known - len(past) :] = torch.stack(past)
        cache: Any = DynamicCache()
        if known:
            parts = [
                part.unflatten(2, shape).transpose(1, 2)
                for part, shape in zip(block.split(sizes, -1), self._shapes, strict=True)
            ]
            for layer in range(len(parts) // 2):
                cache.update(parts[2 * layer], parts[2 * layer + 1], layer)
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
        answer = self.network(
            **{k: torch.from_numpy(x).to(self._device) for k, x in given.items()},
            **{self._cache: cache},
            **self._last_only,
            use_cache=True,
        )
        layers = [x[:, :, known:] for layer in cache.layers for x in (layer.keys, layer.values)]
        found = torch.cat([x.transpose(1, 2).flatten(2) for x in layers], -1)
        fresh = [
            [found[i, k].clone() for k in range(new - len(row) + len(past), new)]  # a view would keep the whole batch
            for i, (row, past) in enumerate(zip(tokens, pasts, strict=True))
        ]
        return answer.logits[:, -1], fresh


class _Node(NamedTuple):
    """What is kept of a prefix."""

    past: Any  # [F], keys and values of its last token, of all layers; None if they can't be kept
    log_probs: np.ndarray | None  # float32[V], of the next token; None if nobody asked

    @property
    def bytes(self) -> int:
        past = 0 if self.past is None else self.past.element_size() * self.past.numel()
        return past + (0 if self.log_probs is None else self.log_probs.nbytes)
