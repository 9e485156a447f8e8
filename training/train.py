"""Train `lille` from nothing: ``python -m training.train``.

Builds the tokenizer, trains by the recipe, and exports to the folder of checkpoints. The
same command continues after a kill: from the last checkpoint, on the same stream of
batches, with the same log. ``--export FOLDER`` also puts the result where it ships.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from rulerlib import checkpoints
from training import tokenizer as tokenizers
from training.data import KINDS, Source, batches
from training.export import export
from training.model import Lille, Shape
from training.recipe import RECIPE, ROOT, cut, rate_at, read_recipe, total_steps
from training.start import grow, structured_start

COLUMNS = ("step", "tokens", "seconds", "length", "kind", "answers", "exact", "loss")

# Steps between two lines of the log; checkpoints are written on such a step only, so that
# a log that continues has no torn line.
LOG_EVERY = 25
CHECKPOINT_SECONDS = 120


def write_atomically(path: Path, write: Any) -> None:
    """Call ``write`` with the name of a temporary file beside ``path``, then put it in place."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    os.close(handle)
    write(name)
    os.chmod(name, 0o644)  # mkstemp makes files that only their owner reads
    os.replace(name, path)


def make_optimizers(model: Lille, settings: Mapping[str, Any]) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the layers, AdamW for all else.

    Muon (Jordan and others, 2024) steps by the orthogonal part of the momentum, so that rare
    directions of a matrix move as fast as common ones: what looks things up is learned in a
    fraction of the tokens. Its rate is scaled so that AdamW's serves both (Liu and others, 2025).
    """
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.dim() == 2 and not n.startswith("embed")]
    # The biases that look back are large by design; at the full rate they wobble.
    look = [p for n, p in named if n.endswith(("q_proj.bias", "k_proj.bias"))]
    chosen = {id(p) for p in (*matrices, *look)}
    rest = [p for _, p in named if id(p) not in chosen]
    groups = [{"params": rest, "share": 1.0}, {"params": look, "share": 0.5}]
    rate = settings["rate"]
    return [
        torch.optim.Muon(
            [{"params": matrices, "share": settings["matrices"]}],
            lr=rate,
            weight_decay=0.0,
            momentum=settings["momentum"],
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            groups, lr=rate, betas=tuple(settings["betas"]), weight_decay=0.0, fused=True
        ),
    ]


def any_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss of each place: minus the log of the probability of its right tokens together.

    Parameters
    ----------
    logits
        (places, vocabulary).
    targets
        (places, alternatives), -1 where there are fewer.

    Returns
    -------
    Tensor
        (places,), in nats.
    """
    right = logits.gather(1, targets.clamp(min=0)).masked_fill(targets < 0, -torch.inf)
    return logits.logsumexp(-1) - right.logsumexp(-1)


def read_weights(folder: str) -> dict[str, torch.Tensor]:
    """Return the weights of an exported model, in float32 and by the names of `Lille`."""
    from safetensors.torch import load_file

    weights = load_file(Path(folder) / "model.safetensors")
    return {name.removeprefix("model."): each.float() for name, each in weights.items()}


def _kept_rows(log: Path, step: int) -> list[list[str]]:
    if not log.exists():
        return []
    with log.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return [row for row in rows if len(row) == len(COLUMNS) and int(row[0]) <= step]


def train(
    recipe: Mapping[str, Any],
    out: Path,
    *,
    device: str = "cpu",
    threads: int = 2,
    workers: int = 1,
    compiled: bool = True,
    bfloat16: bool = True,
    stop_at: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    log_every: int = LOG_EVERY,
) -> Lille:
    """Train in a folder, or go on from the checkpoint that it holds, and return the model.

    Parameters
    ----------
    recipe
        The parsed recipe.
    out
        Folder for tokenizer.json, checkpoint.pt and log.csv.
    device
        ``"cpu"`` or ``"cuda"``.
    threads, workers
        Threads of torch, and further processes that make the batches: one of them keeps up with
        two threads of a processor, a GPU needs one for each core.
    compiled
        Use torch.compile, which needs a C++ compiler and about half a minute a length.
    bfloat16
        Compute the layers in bfloat16.
    stop_at
        Stop after this many steps with a checkpoint, as if killed just then.
    checkpoint_seconds, log_every
        How often to save, in seconds (on a logged step only), and to log, in steps.

    Raises
    ------
    RuntimeError
        If a process that makes batches has died.
    """
    torch.set_num_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer_path, checkpoint, log = out / "tokenizer.json", out / "checkpoint.pt", out / "log.csv"
    if tokenizer_path.exists():
        tokenizer = Tokenizer.from_file(str(tokenizer_path))
    elif "start" in recipe:
        tokenizer = Tokenizer.from_file(
            str(Path(checkpoints.folder(recipe["start"])) / "tokenizer.json")
        )
        write_atomically(tokenizer_path, lambda name: tokenizer.save(str(name)))
    else:
        tokenizer = tokenizers.build(
            recipe["seed"], recipe["shape"]["vocabulary"], tuple(recipe["data"]["languages"])
        )
        write_atomically(tokenizer_path, lambda name: tokenizer.save(str(name)))

    model = Lille(Shape(**recipe["shape"]), torch.bfloat16 if bfloat16 else torch.float32)
    marks = [tokenizer.token_to_id(mark) for mark in tokenizers.MARKS]
    if "grown" in recipe:
        source = Source(recipe, tokenizer)
        rows = (source.batch(step).tokens for step in range(total_steps(recipe)))
        grow(model, read_weights(checkpoints.folder(recipe["start"])), recipe["grown"], rows)
    elif "start" in recipe:
        model.load_state_dict(read_weights(checkpoints.folder(recipe["start"])))
    else:
        structured_start(model, tokenizer.token_to_id(tokenizers.SPACE), marks, recipe["seed"])
    # Drawn on the processor, so that a start is the same everywhere.
    model.to(device)
    settings = recipe["optimizer"]
    optimizers = make_optimizers(model, settings)
    start, tokens, before = 0, 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True, map_location=device)
        model.load_state_dict(state["model"])
        for optimizer, saved_state in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved_state)
        start, tokens, before = state["step"], state["tokens"], state["seconds"]
        print(f"going on from step {start}", flush=True)
    rows = _kept_rows(log, start)

    def write_log(name: str) -> None:
        with open(name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])

    def save(step: int) -> None:
        state = {
            "model": model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in optimizers],
            "shape": model.shape.as_dict(),
            "step": step,
            "tokens": tokens,
            "seconds": before + time.monotonic() - began,
        }
        write_atomically(checkpoint, lambda name: torch.save(state, name))

    hidden = torch.compile(model.hidden, dynamic=False) if compiled else model.hidden
    total = total_steps(recipe)
    began = saved = ticked = time.monotonic()
    ticked_tokens = tokens
    window: dict[tuple[int, int], np.ndarray] = defaultdict(lambda: np.zeros(4))
    step = start
    for index, batch in batches(recipe, tokenizer, start, workers):
        if stop_at is not None and index >= stop_at:
            break
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(recipe, index) * group["share"]
        inputs, positions, places, targets = (
            torch.from_numpy(part).to(device)
            for part in (batch.tokens, batch.positions, batch.places, batch.targets)
        )
        cos, sin = model.positions(positions)
        logits = model.logits(hidden(inputs, cos, sin), places)
        losses = any_of(logits, targets)
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step, tokens = index + 1, tokens + batch.tokens.size

        right = (logits.argmax(-1, keepdim=True) == targets).any(-1).cpu().numpy()
        exact = np.ones(len(batch.kinds), dtype=bool)
        np.logical_and.at(exact, batch.answer, right)
        of_target = batch.kinds[batch.answer]
        each = losses.detach().cpu().numpy()
        for kind in np.unique(batch.kinds):
            answers = exact[batch.kinds == kind]
            cell = each[of_target == kind]
            window[batch.length, int(kind)] += (len(answers), answers.sum(), cell.sum(), len(cell))

        if step % log_every == 0 or step == total:
            now = time.monotonic()
            seconds = before + now - began
            speed = (tokens - ticked_tokens) / (now - ticked)
            said = []
            for (length, kind), (count, good, loss, size) in sorted(window.items()):
                rows.append(
                    [
                        str(cell)
                        for cell in (
                            step,
                            tokens,
                            round(seconds),
                            length,
                            KINDS[kind],
                            int(count),
                            round(good / count, 3),
                            round(loss / size, 4),
                        )
                    ]
                )
                said.append(f"{KINDS[kind]}@{length} {good / count:.2f}")
            window.clear()
            left = (total - step) * recipe["batch"]["tokens"] / speed
            print(
                f"{step}/{total} {tokens / 1e6:.2f}M tokens {speed:.0f}/s "
                f"{seconds / 60:.1f} min, {left / 60:.0f} left | {' '.join(said)}",
                flush=True,
            )
            write_atomically(log, write_log)
            ticked, ticked_tokens = now, tokens
            if now - saved >= checkpoint_seconds or step == total:
                save(step)
                saved = now
    if step > start and step != total:
        save(step)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Train lille from nothing, or go on.")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--out", type=Path, help="folder of the run (default: the recipe's)")
    parser.add_argument("--longest", type=int, help="a shorter context than the recipe's")
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--workers", type=int, help="processes that make batches (GPU: all cores)")
    parser.add_argument("--stop-at", type=int, help="stop after this many steps")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--float32", action="store_true", help="for processors without bfloat16")
    parser.add_argument("--export", type=Path, help="where to put the finished model")
    arguments = parser.parse_args()
    recipe = read_recipe(arguments.recipe)
    if arguments.longest is not None:
        recipe = cut(recipe, arguments.longest)
    out = arguments.out or ROOT / recipe["out"]
    train(
        recipe,
        out,
        device=arguments.device,
        threads=arguments.threads,
        workers=arguments.workers or (arguments.threads if arguments.device == "cuda" else 1),
        compiled=not arguments.no_compile,
        bfloat16=not arguments.float32,
        stop_at=arguments.stop_at,
    )
    if arguments.stop_at is None:
        export(out, arguments.export or out / "lille")


if __name__ == "__main__":
    main()
