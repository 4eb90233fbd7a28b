"""What `bench/sepsis.py` needs of traces: a judge that reads them whole, an agent that writes them, and their scores.

A trace is a row of activities 1 … V - 1, and 0 after its end: int[L].
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from pprjax.declare import Rule
from pprjax.paths import PAD

END = 0
NEAREST = 5


@struct.dataclass
class LSTMJudge:
    """An LSTM of two layers in both directions over the padded trace, as PyTorch's; its output at the last place goes
    through a linear layer and a logistic function. H hidden units, gates i, f, g, o."""

    embedded: jax.Array  # float[2, V, 4H], what a symbol adds to the gates of layer 1, forwards and backwards
    recurrent: jax.Array  # float[2, H, 4H], and what their own outputs add
    inputs: jax.Array  # float[2, 2H, 4H], what the output of layer 1 adds to the gates of layer 2
    bias: jax.Array  # float[2, 4H]
    recurrent_2: jax.Array  # float[H, 4H], forwards; backwards the last place is the first that is read
    out: jax.Array  # float[2H]
    out_bias: jax.Array  # float[]

    def probs(self, symbols: Int[Array, " L"], length: Int[Array, ""]) -> Float[Array, " 2"]:
        """Of the outcomes 0 and 1."""
        del length
        trace = jnp.where(symbols == PAD, END, symbols)
        added = self.embedded[jnp.arange(2), jnp.stack([trace, trace[::-1]], axis=1)]  # [L, 2, 4H]
        ahead, back = jnp.moveaxis(_outputs(added, lambda h: jnp.einsum("dh,dhg->dg", h, self.recurrent)), 1, 0)
        read = jnp.concatenate([ahead, back[::-1]], axis=1)  # [L, 2H]
        ahead = _outputs(read @ self.inputs[0] + self.bias[0], lambda h: h @ self.recurrent_2)[-1]
        back = _outputs(read[-1:] @ self.inputs[1] + self.bias[1], lambda _: jnp.zeros_like(self.bias[1]))[-1]
        logit = jnp.concatenate([ahead, back]) @ self.out + self.out_bias
        return jax.nn.sigmoid(jnp.stack([-logit, logit]))


def _outputs(added: Float[Array, "L *d G"], again: Callable) -> Float[Array, "L *d H"]:
    """An LSTM's outputs, from what its inputs add to the gates and the function that says what its last output adds."""

    def cell(carry, added):
        output, memory = carry
        i, f, g, o = jnp.split(added + again(output), 4, axis=-1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        output = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (output, memory), output

    nothing = jnp.zeros_like(added[0, ..., : added.shape[-1] // 4])
    return jax.lax.scan(cell, (nothing, nothing), added)[1]


def judge_of(weights: Mapping[str, np.ndarray]) -> LSTMJudge:
    """The judge from PyTorch's names: `judge.lstm1.*`, `judge.fc1.*` and `judge.fc2.*`, which are linear both."""

    def both(name: str, layer: int) -> Float[np.ndarray, "2 ..."]:
        return np.stack([weights[f"judge.lstm1.{name}_l{layer}{way}"] for way in ("", "_reverse")]).astype(float)

    def bias(layer: int) -> Float[np.ndarray, "2 G"]:
        return both("bias_ih", layer) + both("bias_hh", layer)

    single = partial(jnp.asarray, dtype=jnp.float32)
    fc1, fc2 = (weights[f"judge.{name}.weight"].astype(float) for name in ("fc1", "fc2"))
    return LSTMJudge(
        embedded=single(both("weight_ih", 0).transpose(0, 2, 1) + bias(0)[:, None]),
        recurrent=single(both("weight_hh", 0).transpose(0, 2, 1)),
        inputs=single(both("weight_ih", 1).transpose(0, 2, 1)),
        bias=single(bias(1)),
        recurrent_2=single(both("weight_hh", 1)[0].T),
        out=single((fc2 @ fc1)[0]),
        out_bias=single((fc2 @ weights["judge.fc1.bias"] + weights["judge.fc2.bias"])[0]),
    )


@jax.jit
def opinions(judge: LSTMJudge, traces: Int[Array, "N L"]) -> Float[Array, " N"]:
    """The probability of outcome 0 of each trace."""
    return jax.vmap(lambda trace: judge.probs(trace, (trace != END).sum())[0])(jnp.asarray(traces, jnp.int32))


@struct.dataclass
class Contexts:
    """P_A by the longest context that is known: the last symbols, as many as were seen together in training."""

    log_probs: jax.Array  # float[S, V], after each of S contexts
    next_state: jax.Array  # int32[S, V + 1], the context after one more symbol, the start among them

    def init(self) -> Int[Array, ""]:
        """The empty context."""
        return jnp.int32(0)

    def step(self, carry: Int[Array, ""], state) -> tuple[Int[Array, ""], Float[Array, " V"]]:
        context = self.next_state[carry, state.symbol]
        return context, self.log_probs[context]


def contexts(
    traces: Int[np.ndarray, "N L"], weights: Float[np.ndarray, " N"], *, num_symbols: int, order: int, strength: float
) -> Contexts:
    """P(s | c) = (n(cs) + α·P(s | c')) / (n(c) + α), where c' is c without its first symbol; after none, evenly.

    Args:
        weights: how often a trace counts in n.
        num_symbols: V; V is the start.
        order: the most symbols of a context c.
        strength: α > 0.
    """
    counts: dict[tuple, np.ndarray] = collections.defaultdict(lambda: np.zeros(num_symbols))
    for trace, weight in zip(np.asarray(traces).tolist(), weights, strict=True):
        row = [num_symbols, *trace, END]
        for i in range(1, row.index(END) + 1):
            for n in range(min(i, order) + 1):
                counts[tuple(row[i - n : i])][row[i]] += weight
    known = sorted(counts, key=len)
    number = {context: i for i, context in enumerate(known)}
    probs = np.empty((len(known), num_symbols))
    next_state = np.zeros((len(known), num_symbols + 1), np.int32)
    for i, context in enumerate(known):
        shorter = probs[number[context[1:]]] if context else np.full(num_symbols, 1 / num_symbols)
        probs[i] = (counts[context] + strength * shorter) / (counts[context].sum() + strength)
        for symbol in range(num_symbols + 1):
            longer = (*context, symbol)[-order:] if order else ()
            next_state[i, symbol] = next(number[longer[k:]] for k in range(len(longer) + 1) if longer[k:] in number)
    return Contexts(jnp.asarray(np.log(probs), jnp.float32), jnp.asarray(next_state))


def distances(some: Int[np.ndarray, "N L"], others: Int[np.ndarray, "M L"]) -> Int[np.ndarray, "N M"]:
    """The Levenshtein distance of all padded rows, as the published figures have it: what follows an end counts."""
    texts = [["".join(map(chr, row)) for row in np.asarray(rows)] for rows in (some, others)]
    return cdist(*texts, scorer=Levenshtein.distance, dtype=np.int32)


def near(
    apart: Int[np.ndarray, "N M"], wanted: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """y_nn, the share of the NEAREST of M training traces that are wanted, by their distances: with an even share of
    those that tie for the last places, and the least and the most that it may be, by how ties are broken."""
    last = np.sort(apart, axis=1)[:, NEAREST - 1 : NEAREST]
    sure, tied = apart < last, apart == last
    have, room = sure @ wanted, NEAREST - sure.sum(1)
    good, ties = tied @ wanted, tied.sum(1)
    shares = room * good / ties, np.maximum(0, room - (ties - good)), np.minimum(room, good)
    mean, least, most = ((have + share) / NEAREST for share in shares)
    return mean, least, most


def rules_of(texts: Sequence[str]) -> list[Rule]:
    """Rules that are written as template(a-b), which are not kept where a or b is missing."""
    rules = []
    for text in texts:
        name, pair = text.rstrip(")").split("(")
        a, b = map(int, pair.split("-"))
        rules.append(Rule(name, (a,)) if a == b else Rule(name, (a, b), vacuous=False))
    return rules


def in_paths(rules: Sequence[Rule], start: int) -> list[Rule]:
    """The same rules for paths that have a start before the trace and an end after it."""
    straight = {"init": lambda a: ("chain_response", (start, a)), "last": lambda a: ("chain_precedence", (a, END))}
    return [Rule(*straight[rule.name](*rule.symbols)) if rule.name in straight else rule for rule in rules]


def broken(trace: Sequence[int], rules: Sequence[Rule]) -> float:
    """The share of the rules that a trace breaks, by what the templates say; it shares no code with the library."""
    row = [symbol for symbol in trace if symbol != END]
    return sum(not _kept(row, rule.name, *rule.symbols) for rule in rules) / len(rules)


def _kept(row: list[int], name: str, a: int, b: int | None = None) -> bool:
    rows, to = ([i for i, symbol in enumerate(row) if symbol == x] for x in (a, b))
    if b is None:
        return {"init": row[:1] == [a], "last": row[-1:] == [a], "exactly": len(rows) == 1}[name]
    if not (rows and to):
        return False
    before, after = rows[0] < to[0], rows[-1] < to[-1]
    held = {"co_existence": True, "precedence": before, "response": after, "succession": before and after}
    return (held | {"not_succession": to[-1] < rows[0]})[name]
