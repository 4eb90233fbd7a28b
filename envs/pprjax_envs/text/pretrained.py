"""Pretrained models of Hugging Face, loaded from a folder. Needs the extra `hf`; downloads nothing unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pprjax.errors import UserError

INSTALL = "needs transformers and PyTorch, which `python3 -m pip install 'PATH/TO/pprjax[hf]'` brings"


def load(
    kind: str,
    model: str,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    download: bool = False,
) -> tuple[Any, Any]:
    """A pretrained model, ready to be asked, and its tokenizer.

    Args:
        kind: transformers' class of models, as "AutoModelForCausalLM".
        model: a folder, a GGUF file, or the id of a model on the hub.
        device: as PyTorch names it.
        dtype: the weights' type, as PyTorch names it.
        download: fetch from the hub what is not here.

    Raises:
        ValueError: the extra `hf` is missing, PyTorch knows no such device or type, or the folder has no such model.
        FileNotFoundError: there is no such folder or file, or the model is not here and download is off.
        OSError: a file of the model is missing or broken.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise UserError(f"model: {INSTALL}") from error
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # the latter where PyTorch was built without CUDA
        raise UserError(f"device: {str(error).splitlines()[0]}") from error
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UserError(f"dtype: expected a type of PyTorch such as float32 or bfloat16, got {dtype!r}")
    folder, options = Path(model).expanduser(), dict[str, Any](local_files_only=not download)
    if folder.suffix == ".gguf":
        if not folder.is_file():
            raise FileNotFoundError(f"model: no such file: {model}")
        folder, options["gguf_file"] = folder.parent, folder.name
    if folder.is_dir():
        model = str(folder)
    elif folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise FileNotFoundError(f"model: no such folder: {model}")
    try:
        network = getattr(transformers, kind).from_pretrained(model, dtype=getattr(torch, dtype), **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, **options)
    except OSError as error:
        if folder.is_dir() or download:
            raise
        raise FileNotFoundError(
            f"model: {model!r} is neither a folder nor among the models that Hugging Face has fetched before; "
            "download=True fetches it"
        ) from error
    except (ValueError, ImportError) as error:  # the latter where a file of weights needs one more package
        raise UserError(f"model: {str(error).strip().splitlines()[0]}") from error
    return network.to(place).eval(), tokenizer
