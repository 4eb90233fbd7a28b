"""Small random models of Hugging Face, made here."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `hf` is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the extra `hf` is not installed")
torch.set_num_threads(1)  # on models this small threads only wait for each other

WORDS = ["[START]", "[END]", "[UNK]", *"she was very sad happy and the cup is empty full so now".split()]  # noqa: SIM905
V, END = len(WORDS) + 1, 1  # the model has a token that the tokenizer lacks
ROOM = 12

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(n_positions=ROOM, n_embd=16, n_layer=2, n_head=2),
    "llama": lambda: transformers.LlamaConfig(max_position_embeddings=ROOM, intermediate_size=32, **SIZES),
    "sliding": lambda: transformers.MistralConfig(
        max_position_embeddings=ROOM, intermediate_size=32, sliding_window=3, **SIZES
    ),
    "bloom": lambda: transformers.BloomConfig(hidden_size=16, n_layer=2, n_head=2),
    "mamba": lambda: transformers.MambaConfig(hidden_size=16, num_hidden_layers=2, state_size=4),
}
KEEPS = ("gpt2", "llama")  # those with keys and values that can be kept


def make(folder, name="gpt2", seed=0, words=tuple(WORDS), start="[START]", end="[END]"):
    """Write a small random model of an architecture, with its tokenizer, into a folder."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"bos_token": start, "eos_token": end, "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{k: x for k, x in special.items() if x is not None}
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = CONFIGS[name]()
    config.vocab_size, config.initializer_range = V, 0.5
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    network = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # far from even, so that what is mixed up shows
        network.get_output_embeddings().weight.copy_(torch.randn(V, 16))
    network.save_pretrained(folder)
    return str(folder)


def whole(folder, prefixes):
    """log P of the next token, each prefix read alone, at once and with nothing kept."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    rows = []
    for prefix in prefixes:
        with torch.no_grad():
            logits = network(torch.tensor([[0 if token == V else token for token in prefix]]), use_cache=False).logits
        rows.append(torch.log_softmax(logits[0, -1].double(), -1).numpy())
    return np.array(rows)
