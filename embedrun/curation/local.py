"""A language model on this machine."""

import gc
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedrun.backbone.declared import read_config
from embedrun.backbone.pretrained import quiet, read_tokenizer, readable
from embedrun.config.options import LlmConfig
from embedrun.curation.llm import Answer
from embedrun.errors import DataError
from embedrun.files import Plain, expanded
from embedrun.store import sha256

# What a model's folder may hold that decides its answers.
_FILES = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*vocab.txt", "*merges.txt")


class LocalLlm:
    """Decodes greedily or samples from a seed; loaded with the first prompt.

    The model's chat template is used where it has one, with the prompt as the only message. Of the model's
    own generation settings only its end tokens count.

    Args:
        llm: its options; each group of prompts draws its own numbers from the seed.
        folder: with configuration, weights and tokenizer; only data is read, no code.
        precision: of the weights, `fp32`, `bf16` or `fp16`.
    """

    parallel = 1

    def __init__(self, llm: LlmConfig, folder: Path, *, device: str, precision: str) -> None:
        self._folder, self._device, self._precision = folder, device, precision
        # Where a folder lies on this machine is nobody's business, and must not change the output.
        path = expanded(llm.name or "")
        self.label = path.resolve().name if path.exists() else llm.name or ""
        self.together = llm.batch_size or 8
        self.settings: Plain = {
            "kind": "local",
            "name": self.label,
            "files": _files(folder),
            "precision": precision,
            "batch_size": self.together,
            "max_new_tokens": llm.max_new_tokens,
            "temperature": llm.temperature or 0.0,
            "seed": llm.seed or 0,
        }
        self._model: Any = None
        self._tokenizer: Any = None
        self._ends: list[int] = []  # tokens that end a text

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers of one decoding of all prompts; a prompt that is too long for the model is refused."""
        if self._model is None:
            self._model, self._tokenizer = self._load()
        special = self._tokenizer.chat_template is None  # a template writes the special tokens itself
        texts = list(prompts)
        if not special:
            chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
            texts = self._tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        lengths = [len(ids) for ids in self._tokenizer(texts, add_special_tokens=special)["input_ids"]]
        positions = getattr(self._model.config, "max_position_embeddings", None) or float("inf")
        fitting = [text for text, length in zip(texts, lengths, strict=True) if length < positions]
        decoded = iter(self._decode(fitting, special, positions) if fitting else ())
        return [
            next(decoded)
            if length < positions
            else Answer("", refused=f"the prompt has {length} tokens, and the model takes {positions}")
            for length in lengths
        ]

    def close(self) -> None:
        """Free the model's memory."""
        import torch

        self._model = self._tokenizer = None
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _load(self) -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self._precision]
        local = {"local_files_only": True, "trust_remote_code": False}
        read_config(self._folder)
        with readable(self._folder, "a causal language model"), quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=dtype, weights_only=True, output_loading_info=True, **local
            )
            model, report = loaded
            tokenizer: Any = read_tokenizer(self._folder, getattr(model.config, "vocab_size", None))
        if missing := sorted(report["missing_keys"]):
            raise DataError(
                f"{self._folder}: the weights lack {', '.join(missing[:3])} of a causal language model, "
                "which would be random; name a model that was trained to write"
            )
        ends = model.generation_config.eos_token_id
        ends = tokenizer.eos_token_id if ends in (None, []) else ends
        self._ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token_id = self._ends[0] if self._ends else 0
        tokenizer.padding_side = "left"  # what is written follows the prompt at once
        warmth = self.settings["temperature"]
        sampled = {"do_sample": True, "temperature": warmth, "top_k": 0, "top_p": 1.0}
        # A new one, since generate() falls back to the model's own settings for what it is not told.
        model.generation_config = GenerationConfig(
            **(sampled if warmth > 0 else {"do_sample": False}),
            eos_token_id=self._ends or None,
            pad_token_id=tokenizer.pad_token_id,
        )
        return model.eval().to(self._device), tokenizer

    def _decode(self, texts: list[str], special: bool, positions: float) -> list[Answer]:
        import torch

        batch = self._tokenizer(texts, add_special_tokens=special, padding=True, return_tensors="pt")
        batch = {name: batch[name].to(self._device) for name in ("input_ids", "attention_mask")}
        width = batch["input_ids"].shape[1]
        devices = range(torch.cuda.device_count()) if self._device == "cuda" else ()
        drawn = "\0".join([str(self.settings["seed"]), *texts]).encode()
        with torch.inference_mode(), torch.random.fork_rng(devices=devices):
            torch.manual_seed(int.from_bytes(hashlib.sha256(drawn).digest()[:7]))
            new = int(min(self.settings["max_new_tokens"], positions - width))
            out = self._model.generate(**batch, max_new_tokens=new)  # (texts, width + new tokens)
        answers = []
        for ids in out[:, width:].tolist():
            length = next((place for place, token in enumerate(ids) if token in self._ends), None)
            text = self._tokenizer.decode(ids[:length], skip_special_tokens=True)
            answers.append(Answer(text, cut=length is None))
        return answers


def _files(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern)}):
        digest.update(f"{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()
