"""The LSTM that writes years, which is the agent, and the LSTM that tells two cities apart, which is the goal."""

from __future__ import annotations

import os

import jax
import numpy as np
from flax import struct
from jaxtyping import Float

from pprjax_envs import lstm, weights
from pprjax_envs.sequence import class_probs, log_probs
from pprjax_envs.temperature.years import Data, Scale


def features(scale: Scale, *, spacing: float = 4.0) -> Float[np.ndarray, "V+1 F"]:
    """What an LSTM sees of each symbol: the temperature in units of 20 °F, and bumps along the scale; last, the start.

    Args:
        spacing: of the bumps, in °F; also their standard deviation.
    """
    degrees = scale.decode(np.arange(scale.num_symbols))
    centres = np.arange(scale.low, scale.high + spacing, spacing)
    bumps = np.exp(-0.5 * ((degrees[:, None] - centres) / spacing) ** 2)
    linear = (degrees[:, None] - (scale.low + scale.high) / 2) / 20.0
    table = np.zeros((scale.num_symbols + 1, 2 + len(centres)), np.float32)
    table[:-1, 1:] = np.concatenate([linear, bumps], 1)
    table[-1, 0] = 1.0
    return table


@struct.dataclass
class Models:
    """The agent and the classifier."""

    generator: lstm.LSTMPolicy
    classifier: lstm.LSTMClassifier


def train(data: Data, training: lstm.Training = lstm.Training(), *, seed: int = 0) -> Models:
    """The LSTM that writes years of either city, and the one that tells the cities apart."""
    key_generator, key_classifier = jax.random.split(jax.random.key(seed))
    table = features(data.scale)
    return Models(
        generator=lstm.train_generator(data.train_symbols, table, training, key=key_generator),
        classifier=lstm.train_classifier(data.train_symbols, data.train_labels, table, training, key=key_classifier),
    )


def trained(
    data: Data, training: lstm.Training = lstm.Training(), *, seed: int = 0, folder: str | os.PathLike | None = None
) -> tuple[Models, bool]:
    """What `train` gives, read back if it was trained before on this data with these settings; and whether it was.

    Args:
        folder: where weights are kept; default `weights.cache_folder()`.
    """
    name = weights.digest(data.train_symbols, data.train_labels, features(data.scale), training, seed)
    return weights.remembered(f"temperature-{name}", lambda: train(data, training, seed=seed), folder=folder)


def quality(data: Data, models: Models) -> dict[str, float]:
    """How good the models are on training and test years.

    Returns:
        accuracy and log_prob (mean log P_A a month, which is s_policy), `train_…` and `test_…`.
    """
    figures = {}
    for part, symbols, labels in (
        ("train", data.train_symbols, data.train_labels),
        ("test", data.test_symbols, data.test_labels),
    ):
        chosen = np.argmax(class_probs(models.classifier, symbols), 1)
        figures[f"{part}_accuracy"] = float(np.mean(chosen == labels))
        figures[f"{part}_log_prob"] = float(np.mean(log_probs(models.generator, symbols, data.scale.num_symbols)))
    return figures
