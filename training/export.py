"""From a checkpoint to a folder that transformers and vLLM load: ``python -m training.export``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.evaluate import SEED, sha256, table
from training.model import Shape
from training.recipe import ROOT, read_recipe
from training.tokenizer import BOS, EOS, PAD, save_pretrained

LONGEST = 131_072


def export(run: Path, folder: Path) -> dict[str, float]:
    """Write model, tokenizer and settings of a run's last checkpoint into a folder.

    The folder is complete or untouched: everything is written beside it first. Files that
    are in it and not made here (the model card) stay.

    Returns
    -------
    dict
        ``step``, ``tokens`` and ``seconds`` of the checkpoint.

    Raises
    ------
    ValueError
        If the checkpoint does not fit a Llama.
    """
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    state = torch.load(run / "checkpoint.pt", weights_only=True, map_location="cpu")
    shape = Shape(**state["shape"])
    config = LlamaConfig(
        **shape.llama(LONGEST),
        rope_parameters={"rope_type": "default", "rope_theta": shape.theta},
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    model = LlamaForCausalLM(config)
    weights = {f"model.{name}": tensor for name, tensor in state["model"].items()}
    loaded = model.load_state_dict(weights, strict=False)
    if loaded.unexpected_keys or set(loaded.missing_keys) - {"lm_head.weight"}:
        raise ValueError(f"The checkpoint does not fit a Llama: {loaded}.")
    model.tie_weights()
    model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(
        bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, do_sample=False
    )

    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        model.save_pretrained(beside)
        save_pretrained(Tokenizer.from_file(str(run / "tokenizer.json")), beside, LONGEST)
        settings = json.loads((beside / "config.json").read_text("utf-8"))
        # transformers 4 reads these two names, transformers 5 `dtype` and `rope_parameters`.
        settings["rope_theta"] = shape.theta
        settings["torch_dtype"] = "bfloat16"
        (beside / "config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
        for file in sorted(beside.iterdir()):
            file.chmod(0o644)
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return {name: state[name] for name in ("step", "tokens", "seconds")}


def write_card(folder: Path, results: Path, run: dict[str, float]) -> None:
    """Fill in card.md and write it as README.md into a folder that `export` has written.

    Parameters
    ----------
    results
        The table that `training.evaluate` measured.
    run
        What `export` returned.
    """
    from safetensors import safe_open

    weights = folder / "model.safetensors"
    with safe_open(weights, "pt") as tensors:
        parameters = sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118
    config = json.loads((folder / "config.json").read_text("utf-8"))
    card = Path(__file__).with_name("card.md").read_text("utf-8")
    phases = read_recipe()["phases"]
    text = card.format(
        parameters=parameters,
        size=weights.stat().st_size / 1e6,
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        vocabulary=config["vocab_size"],
        tokens=run["tokens"] / 1e6,
        steps=int(run["step"]),
        minutes=run["seconds"] / 60,
        trained=max(int(length) for phase in phases for length in phase["lengths"]),
        seed=SEED,
        dtype=config["dtype"],
        table=table(results),
        sha256=sha256(weights),
    )
    (folder / "README.md").write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Export the last checkpoint of a run.")
    parser.add_argument("--run", type=Path, default=ROOT / read_recipe()["out"])
    parser.add_argument("--to", type=Path, default=ROOT / "rulerlib" / "models" / "lille")
    parser.add_argument("--card", action="store_true", help="write the model card as well")
    parser.add_argument(
        "--results", type=Path, default=Path(__file__).with_name("results.csv"),
        help="what evaluate measured, for the card",
    )  # fmt: skip
    arguments = parser.parse_args()
    run = export(arguments.run, arguments.to)
    if arguments.card:
        write_card(arguments.to, arguments.results, run)
    size = (arguments.to / "model.safetensors").stat().st_size
    digest = sha256(arguments.to / "model.safetensors")
    print(f"{arguments.to}: step {run['step']}, {run['tokens'] / 1e6:.1f}M tokens, {size} bytes")
    print(f"sha256 {digest}")


if __name__ == "__main__":
    main()
