"""How near our reading of a GGUF file is to llama.cpp's: tokens, log-likelihoods, greedy answers.

    python -m venv llama
    llama/bin/pip install llama-cpp-python==0.3.36
    python benchmarks/against_llama.py --python llama/bin/python --model smollm2

Both get the same tokens of the same prompts, equally many of each of RULER's tasks that fit into
512 tokens. llama.cpp is asked three times: with the file as it is, whose arithmetic rounds what a
layer hands on to 8 bits, and with copies of the file in float32 and float16, which hold the same
weights. These three differ by rounding only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# llama.cpp's numbers of the formats that its quantizer writes.
COPIES = {"float32": 0, "float16": 1}
# Tokens of a prompt with its answer; the other tasks have examples or documents that need more.
LENGTH = 512


def answer_with_llama_cpp() -> None:
    """Run the command in each line of the standard input, in llama.cpp's environment."""
    import ctypes

    import llama_cpp
    import numpy as np

    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    model: Any = None

    def scores() -> Any:
        """Return the log-likelihood of each next token."""
        logits = llama_cpp.llama_get_logits(model.ctx)
        row = np.ctypeslib.as_array(logits, (model.n_vocab(),)).astype(np.float64)
        return row - np.logaddexp.reduce(row)

    def copy(source: str, target: str, form: str) -> int:
        """Write a copy of a file in another number format; 0 says that it worked."""
        settings = llama_cpp.llama_model_quantize_default_params()
        settings.ftype, settings.allow_requantize = COPIES[form], True
        return llama_cpp.llama_model_quantize(source.encode(), target.encode(), settings)

    def load(path: str) -> int:
        nonlocal model
        # Two threads on a processor that something else uses wait for each other all the time.
        threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
        model = llama_cpp.Llama(
            path, n_ctx=LENGTH + 128, n_threads=threads, n_threads_batch=threads,
            swa_full=True, verbose=False,
        )  # fmt: skip
        return 0

    def ask(text: str, special: bool, prompt: list, answer: list, most: int, ends: list) -> dict:
        """Return the log-likelihood of an answer, and the greedy one."""
        tokens = model.tokenize(text.encode(), add_bos=special, special=True)
        model.reset()
        model.eval(prompt)
        likelihood, written = 0.0, []
        for token in answer:
            likelihood += float(scores()[token])
            model.eval([token])
        # The same prompt again, without the answer that was given to it.
        model.n_tokens = len(prompt) - 1
        model.eval(prompt[-1:])
        while len(written) < most and not set(written[-1:]) & set(ends):
            written.append(int(scores().argmax()))
            model.eval(written[-1:])
        return {"same": tokens == prompt, "likelihood": likelihood, "written": written}

    orders = {"copy": copy, "load": load, "ask": ask}
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(orders[name](*arguments)), flush=True)


class LlamaCpp:
    """llama.cpp in a process of its own environment."""

    def __init__(self, python: str) -> None:
        command = [python, __file__, "--answer"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __call__(self, name: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(python: str, name: str, count: int, most: int) -> None:
    """Print how near both are on some prompts."""
    import numpy as np
    import torch
    import transformers
    from tqdm import tqdm

    from rulerlib import checkpoints, models, tasks
    from rulerlib.dataset import Dataset
    from rulerlib.predict import request

    engine = models.load(name, "transformers", dtype="float32")
    tokenizer = engine.tokenizer
    names = [name for name in tasks.names("ruler", None) if name.startswith(("niah", "fwe"))]
    rows = -(-count // len(names))
    datasets = [Dataset(task, LENGTH, "en", name, num_samples=rows) for task in names]
    samples = [(data, data[index]) for index in range(rows) for data in datasets][:count]
    requests = [request(sample, data.frame, most) for data, sample in samples]
    prompts = [tokenizer.encode(item.prompt, item.special) for item in requests]
    answers = [tokenizer.encode(" " + ", ".join(sample.outputs), False) for _, sample in samples]

    def likelihoods(model: Any, label: str) -> list[float]:
        """Return the log-likelihood of each answer after its prompt."""
        sums = []
        for prompt, answer in zip(tqdm(prompts, label), answers, strict=True):
            with torch.inference_mode():
                ids = torch.tensor([[*prompt, *answer]])
                logits = model(ids, logits_to_keep=len(answer) + 1).logits[0, :-1].double()
            chosen = logits.log_softmax(-1)[range(len(answer)), answer]
            sums.append(float(chosen.sum()))
        return sums

    load = transformers.AutoModelForCausalLM.from_pretrained
    path = checkpoints.gguf_file(name)
    likelihood_by_format: dict[str, list[float]] = {}
    folder = checkpoints.folder(name)
    likelihood_by_format["ours"] = likelihoods(load(folder, dtype=torch.float32), "ours")
    unrounded = load(
        path.parent, gguf_file=path.name, dtype=torch.float32,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )  # fmt: skip
    likelihood_by_format["ours, weights in float32"] = likelihoods(unrounded, "weights in float32")
    ends = transformers.GenerationConfig.from_pretrained(folder).eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    generations = models.in_order(engine, requests)
    written = {"ours": [generation.text for generation in generations]}
    other = LlamaCpp(python)
    with tempfile.TemporaryDirectory() as scratch:
        for form in ("file", *COPIES):
            copied = Path(scratch) / f"{form}.gguf"
            if form == "file":
                copied = path
            elif other("copy", str(path), str(copied), form):
                raise SystemExit(f"llama.cpp could not write a copy in {form}.")
            other("load", str(copied))
            outcomes = [
                other("ask", item.prompt, item.special, prompt, answer, most, ends)
                for item, prompt, answer in zip(tqdm(requests, form), prompts, answers, strict=True)
            ]
            likelihood_by_format[form] = [outcome["likelihood"] for outcome in outcomes]
            texts = [tokenizer.backend.decode(outcome["written"]) for outcome in outcomes]
            written[form] = texts
            same = sum(outcome["same"] for outcome in outcomes)
            print(f"{form}: {same} of {count} prompts have the same tokens")
    sizes = np.array([len(answer) for answer in answers])
    for one, two in itertools.combinations(likelihood_by_format, 2):
        differences = (
            np.abs(np.array(likelihood_by_format[one]) - np.array(likelihood_by_format[two]))
            / sizes
        )
        print(
            f"{one} | {two}: nats a token: mean {differences.mean():.2g},"
            f" 95% below {np.quantile(differences, 0.95):.2g}, most {differences.max():.2g}"
        )
    for one, two in itertools.combinations(written, 2):
        differ = sum(
            a.strip() != b.strip() for a, b in zip(written[one], written[two], strict=True)
        )
        print(f"{one} | {two}: {differ} of {count} greedy answers of {most} tokens differ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", help="that of the environment with llama-cpp-python")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--count", type=int, default=200, help="prompts")
    parser.add_argument("--most", type=int, default=32, help="tokens of a greedy answer")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_with_llama_cpp()
    else:
        compare(options.python, options.model, options.count, options.most)
