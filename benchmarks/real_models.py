"""How fast real models answer on this machine: ours, lm-eval's ``hf`` model, llama.cpp.

    python -m venv llama
    llama/bin/pip install llama-cpp-python==0.3.36
    python benchmarks/real_models.py --python llama/bin/python --model smollm2 --length 1024

All three get the same prompts, equally many of four tasks, and write greedy answers of up to 128
tokens (``--tokens 1``: they read, and hardly write). They take turns, two or more, each with no
more prompts than ours answers together. Each is a process of its own with as many threads, loads
its weights before the clock runs, and is given what it would be given in use: lm-eval one prompt at
a time in the same number format as ours, llama.cpp the quantized file. Prints seconds per prompt,
wall and processor time, and both as multiples of ours.

With ``--queries 8`` eight questions have a context in common, of two tasks that allow it. Ours
reads a context once for all of them; llama.cpp keeps what the next prompt begins with; lm-eval
reads every prompt.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

TASKS = ("niah_single_2", "niah_multikey_2", "niah_multiquery", "vt")
SHARING = ("niah_multikey_2", "niah_multikey_3")
THREADS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))

Answer = Callable[[list[dict[str, Any]]], int]
"""A function from prompts to the number of tokens that it wrote."""


def ours(settings: dict[str, Any]) -> Answer:
    """Return how our engine answers."""
    from rulerlib import models

    engine = models.load(settings["model"], "transformers", dtype=settings["dtype"])
    # The first request loads the weights.
    models.in_order(engine, [models.Request("x", True, 1)])

    def answer(prompts: list[dict[str, Any]]) -> int:
        size = engine.batch_size(settings["length"]) or len(prompts)
        tokens = 0
        for context, alike in itertools.groupby(prompts, key=operator.itemgetter("context")):
            # As `rulerlib.predict` does: all questions on a context in one call.
            while part := [*itertools.islice(alike, size if context is None else None)]:
                requests = [
                    models.Request(
                        prompt["text"], prompt["special"], settings["most"], group=context
                    )
                    for prompt in part
                ]
                tokens += sum(result.tokens for result in models.in_order(engine, requests))
        return tokens

    return answer


def lm_eval(settings: dict[str, Any]) -> Answer:
    """Return how lm-eval's model answers, with its own batch size, one."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(
        pretrained=settings["folder"], dtype=settings["dtype"], device="cpu", batch_size=1,
        max_length=settings["length"] + settings["most"],
    )  # fmt: skip

    def answer(prompts: list[dict[str, Any]]) -> int:
        # Nothing but the end of the text stops an answer.
        chosen = {"until": [], "max_gen_toks": settings["most"], "do_sample": False}
        requests = [
            Instance("generate_until", {}, (prompt["text"], dict(chosen)), at)
            for at, prompt in enumerate(prompts)
        ]
        texts = model.generate_until(requests, disable_tqdm=True)
        return sum(len(model.tok_encode(text, add_special_tokens=False)) for text in texts)

    return answer


def llama_cpp(settings: dict[str, Any]) -> Answer:
    """Return how llama.cpp answers, with the file as it is."""
    import llama_cpp
    import numpy

    model = llama_cpp.Llama(
        settings["file"], n_ctx=settings["length"] + settings["most"], n_threads=THREADS,
        n_threads_batch=THREADS, verbose=False,
    )  # fmt: skip

    def likeliest() -> int:
        scores = llama_cpp.llama_get_logits(model.ctx)
        return int(numpy.ctypeslib.as_array(scores, (model.n_vocab(),)).argmax())

    def answer(prompts: list[dict[str, Any]]) -> int:
        tokens = 0
        for prompt in prompts:
            # Keep the prefix shared with the last prompt, as its server does.
            before = model.input_ids[: model.n_tokens].tolist()
            kept = model.longest_token_prefix(before, prompt["ids"])
            model.n_tokens = min(kept, len(prompt["ids"]) - 1)
            model.eval(prompt["ids"][model.n_tokens :])
            for _ in range(settings["most"]):
                token = likeliest()
                tokens += 1
                if token in settings["ends"]:
                    break
                model.eval([token])
        return tokens

    return answer


WAYS: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "ours": ours,
    "lm-eval": lm_eval,
    "llama.cpp": llama_cpp,
}


def serve(way: str) -> None:
    """Answer the prompts of each line of the standard input, and say what it took."""
    # Output of libraries would mix with the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = WAYS[way](json.loads(sys.stdin.readline()))
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        clock, processor = time.perf_counter(), time.process_time()
        tokens = answer(json.loads(line))
        figures = time.perf_counter() - clock, time.process_time() - processor, tokens
        print(json.dumps(figures), file=out, flush=True)


def measure(
    model: str, length: int, count: int, dtype: str, python: str | None, queries: int, most: int
) -> None:
    """Print how long each way takes for a prompt."""
    import transformers
    from tqdm import tqdm

    from rulerlib import checkpoints, models
    from rulerlib.dataset import Dataset
    from rulerlib.predict import request

    engine = models.load(model, "transformers", dtype=dtype)
    tasks = SHARING if queries > 1 else TASKS
    each = -(-count // len(tasks))
    datasets = [
        Dataset(task, length, "en", model, num_samples=each, queries_per_context=queries)
        for task in tasks
    ]
    # In an order in which all questions on a context follow each other.
    requests = [
        (data.task, request(data[at], data.frame, most))
        for first in range(0, each, queries)
        for data in datasets
        for at in range(first, min(first + queries, each))
    ]
    prompts = [
        {
            "text": item.prompt,
            "special": item.special,
            "context": None if item.group is None else f"{task} {item.group}",
            "ids": engine.tokenizer.encode(item.prompt, item.special),
        }
        for task, item in requests[:count]
    ]
    ends = transformers.GenerationConfig.from_pretrained(checkpoints.folder(model)).eos_token_id
    settings = {
        "model": model,
        "length": length,
        "most": most,
        "dtype": engine.dtype,
        "folder": checkpoints.folder(model),
        "file": str(checkpoints.gguf_file(model)),
        "ends": ends if isinstance(ends, list) else [ends],
    }
    processes = {}
    for way in WAYS:
        if way == "llama.cpp" and python is None:
            continue
        command = [python if way == "llama.cpp" else sys.executable, __file__, "--serve", way]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=2, text=True)
        processes[way] = process
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{way} did not start.")
    sums = {way: [0.0, 0.0, 0.0] for way in processes}
    turns = max(2, -(-count // engine.batch_size(length)))
    size = -(-count // (turns * queries)) * queries
    with tqdm(total=count * len(processes), desc=f"{model}, {length}") as bar:
        for start in range(0, count, size):
            part = prompts[start : start + size]
            for way, process in processes.items():
                process.stdin.write(json.dumps(part) + "\n")
                process.stdin.flush()
                figures = json.loads(process.stdout.readline())
                sums[way] = [one + two for one, two in zip(sums[way], figures, strict=True)]
                bar.update(len(part))
    print(
        f"{model}, {count} prompts of {length} tokens, {queries} on a context, {engine.dtype},"
        f" {THREADS} threads"
    )
    for way, (clock, processor, tokens) in sums.items():
        print(
            f"{way:10} {clock / count:6.2f} s a prompt ({clock / sums['ours'][0]:.2f} of ours),"
            f" processor {processor / count:6.2f} s ({processor / sums['ours'][1]:.2f} of ours),"
            f" {tokens / count:.0f} tokens an answer"
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", help="that of the environment with llama-cpp-python")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--length", type=int, default=1024, help="tokens")
    parser.add_argument("--count", type=int, default=100, help="prompts")
    parser.add_argument("--queries", type=int, default=1, help="questions on a context")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer, at most")
    parser.add_argument("--dtype", default="auto", help="of ours and of lm-eval's model")
    parser.add_argument("--serve", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    else:
        measure(
            options.model,
            options.length,
            options.count,
            options.dtype,
            options.python,
            options.queries,
            options.tokens,
        )


if __name__ == "__main__":
    main()
