"""Tiny random models and engines without a model, for tests.

The models are two-layer Llamas with random weights. Their answers are deterministic nonsense and
take milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers_store import write_records

from conftest import ROOT, make_tokenizer
from rulerlib import tokens
from rulerlib.models import Generation, Request, in_order
from rulerlib.prompts import Decoding
from rulerlib.samples import Sample

LILLE = ROOT / "rulerlib" / "models" / "lille"

LIMIT = 2048
"""The context limit of the tiny models."""


def tiny_model(folder: Path, template: str | None = None) -> Path:
    """Save a random model and its tokenizer.

    The weights are larger than usual, so that answers vary and depend on the whole prompt.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer("bytelevel").backend, bos_token="<s>", eos_token="</s>",
        chat_template=template,
    )  # fmt: skip
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        max_position_embeddings=LIMIT,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False, initializer_range=0.4,
    )  # fmt: skip
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(config)
    torch.random.set_rng_state(state)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Parrot:
    """An engine whose answer is a hash of the prompt; it ignores stop strings."""

    name = "parrot"

    def __init__(
        self, limit: int | None = None, batch: int = 4, seconds: float = 0.0, **settings: Any
    ) -> None:
        self.tokenizer = tokens.Words()
        self.limit = limit
        self.settings = {"engine": "parrot", "dtype": "float32", **settings}
        self.asked: list[str] = []
        self._batch, self._seconds = batch, seconds

    def batch_size(self, length: int) -> int:
        return self._batch

    def decoding(self, wanted: Decoding) -> Any:
        return wanted.settings()

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            time.sleep(self._seconds)
            said = hashlib.sha256(request.prompt.encode()).hexdigest()[:12]
            # Characters that need escaping in a line of JSON.
            yield position, Generation(f' æøå "{said}"\n\u2028{{}}\\', 3, True)


def say(
    model: Any, prompts: Sequence[str], max_new_tokens: int, special: bool = True, **more: Any
) -> list[Generation]:
    """Return the answers of an engine to some prompts, in their order."""
    return in_order(model, [Request(text, special, max_new_tokens, **more) for text in prompts])


def some_samples(count: int, size: int = 200) -> list[Sample]:
    """Return distinct samples, counted in words."""
    words = tokens.Words()
    records = []
    for index in range(count):
        text = f"Prøve {index}: " + "græs " * (size // 5 + index % 7) + "Hvad er tallet?"
        answer = str(1_000_000 + index * 7919)
        length = words.count(text + " Svaret er:") + 16
        about = {"depths": [index % 101], "token_positions": [2], "task": "niah_single_2"}
        records.append(Sample(index, text, [answer], length, length, " Svaret er:", 2,
                              language="da", **about))  # fmt: skip
    return records


def write_dataset(folder: Path, records: Sequence[Sample], **changed: Any) -> Path:
    """Write questions and their metadata as `rulerlib.store` does."""
    path = folder / "validation.jsonl"
    write_records(path, records)
    about = {
        "task": "niah_single_2", "language": "da", "length": 4096, "seed": 42, "chat": False,
        "tokenizer_fingerprint": tokens.Words().fingerprint, "tokens_to_generate": 16,
        "num_samples": len(records), **changed,
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(about), encoding="utf-8")
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def bare_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a new machine, without an activated virtual environment."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {
        name: os.environ[name]
        for name in ("LANG", "TMPDIR", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        **kept, "PATH": "/usr/bin:/bin", "HOME": str(home), "HF_HUB_OFFLINE": "1",
        "JUPYTER_DATA_DIR": str(home / "jupyter"), "IPYTHONDIR": str(home / "ipython"),
        "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", **more,
    }  # fmt: skip


def run_niah(
    home: Path, cwd: Path, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``rulerlib run niah`` as a user without an activated virtual environment."""
    return subprocess.run(
        [sys.executable, "-m", "rulerlib", "run", "niah", *arguments],
        cwd=cwd, env=bare_environment(home, **more), capture_output=True, text=True, timeout=540,
    )  # fmt: skip
