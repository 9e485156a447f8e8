"""The model in the reader's browser: whether it answers as `rulerlib` does, and how fast it is.

    python benchmarks/browser.py                       # 240 prompts, as the page asks them

The page's own worker is asked, in headless Chromium, and then the transformers engine at float32.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from book import browser, vendor
from rulerlib import languages, models, predict
from rulerlib.playground import ROWS, Playground, Setting
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks.composer import Composer

# The reader's own wording, with what is drawn in it and with a value of the reader's own.
OWN = [
    {"needle": "The number of the {key} is {value}."},
    {
        "needle": "The code of the shed is {4711}.",
        "question": "What is the code of the shed?",
        "prefix": "The code of the shed is",
    },
]

# Asks the worker one setting after another; a mistake of the reader's is a reply, too. Settings and
# replies go as JSON: Playwright would take each value in them apart by itself.
_ASK = """async ([address, kind, settings]) => {
    const worker = new Worker(address, { type: "module" });
    const replies = [];
    const send = (message) => new Promise((resolve, reject) => {
        worker.onerror = (event) => reject(new Error(event.message));
        worker.onmessage = ({ data }) => {
            if (data.mistake) resolve({ mistake: data.error });
            else if (data.error !== undefined) reject(new Error(data.error));
            else if (!data.progress) resolve(data.result);
        };
        worker.postMessage(message);
    });
    const load = kind === "ask" ? (await send({ id: 0, kind: "load" })).seconds : 0;
    for (const setting of JSON.parse(settings)) replies.push(await send({ id: 1, kind, setting }));
    worker.terminate();
    return JSON.stringify({ load, replies });
}"""


def settings(lengths: Iterable[int] = browser.COLUMNS) -> list[Setting]:
    """Return every variant that the page offers, in both languages, at all depths."""
    lengths = list(lengths)
    found = []
    for code in languages.available():
        other = next(name for name in languages.available() if name != code)
        text = "\n\n".join(languages.load(other).essays[:3])
        for number, depth in enumerate(ROWS):
            cells = [(length, distractors) for length in lengths for distractors in (0, 3)]
            found += [
                Setting(language=code, length=length, depth=depth, num_distractors=distractors,
                        index=(number + place) % browser.DRAWS)
                for place, (length, distractors) in enumerate(cells)
            ]  # fmt: skip
            found += [
                browser.hidden("uuids", language=code, length=length, depth=depth,
                               num_distractors=3 * (number % 2), index=number)
                for length in lengths if length >= 1000 or not number % 2
            ]  # fmt: skip
            length = lengths[number % len(lengths)]
            asked = {"language": code, "length": length, "depth": depth, "index": number}
            found += [Setting(**asked, **own) for own in OWN]
            found += [
                Setting(**asked, haystack="text", text=text, num_distractors=distractors)
                for distractors in (0, 3)
            ]
    return found


def on_the_page(setting: Setting) -> dict[str, Any]:
    """Return a setting as the page's worker takes it."""
    names = ("language", "haystack", "length", "depth", "needle", "question", "prefix", "text",
             "index")  # fmt: skip
    made = {name: getattr(setting, name) for name in names}
    kind = "uuids" if setting.type_needle_v == "uuids" else "words"
    return {**made, "distractors": setting.num_distractors, "kind": kind}


def prompt_of(play: Playground, setting: Setting) -> tuple[Sample, str]:
    """Return a sample and the text that is fed, as rulerlib makes them."""
    if setting.haystack != "text":
        prompt = play.prompt_of(setting)
        return prompt.sample, prompt.fed
    # The page begins the reader's own text where it begins, and not at a place that is drawn.
    samples = play.samples_of(setting)
    maker = samples.at(setting.depth)
    draft, _ = samples.plan(setting.index, setting.depth)
    composer = Composer(maker.haystack, samples.counting, maker.mark)
    sample = composer.share([draft], functools.partial(maker.haystack.take, start=0))[0]
    return sample, samples.frame.prompt(sample.input, sample.answer_prefix)


def answer_of(play: Playground, sample: Sample) -> str:
    """Return what the engine says to a sample, asked alone as the playground asks."""
    frame = PromptFormat().frame(play.model.tokenizer)
    (generation,) = models.in_order(play.model, [predict.request(sample, frame, play.prompt.room)])
    return generation.text


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def bare_site(folder: Path) -> Path:
    """Write into a folder what the page's worker loads, and one empty page; return the folder."""
    vendor.fetch()
    shutil.copytree(vendor.FOLDER.parent, folder / "_static")
    browser.make(folder / "_static" / "needle")
    (folder / "index.html").write_text("<!doctype html><title>benchmark</title>")
    return folder


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Yield Chromium that can reach this machine and no other.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    from playwright.sync_api import sync_playwright

    named = (
        os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome", "chrome",
    )  # fmt: skip
    path = next(filter(None, map(shutil.which, filter(None, named))), None)
    if path is None:
        raise FileNotFoundError("needs Chromium (apt install chromium, or CHROMIUM=path)")
    # Without its own sandbox, which root and containers do not have.
    alone = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=alone)
        yield browser
        browser.close()


def ask(page: Any, address: str, kind: str, asked: Sequence[Setting]) -> dict[str, Any]:
    """Send settings to a page's worker: as a "prompt", or to "ask" the model."""
    return ask_worker(page, address, kind, [*map(on_the_page, asked)])


def ask_worker(
    page: Any, address: str, kind: str, asked: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Send to a page's worker what `on_the_page` returns; also what is no `Setting`."""
    worker = f"{address}/_static/needle/worker.js?{browser.version()}"
    replies: dict[str, Any] = json.loads(page.evaluate(_ASK, [worker, kind, json.dumps(asked)]))
    return replies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=browser.COLUMNS)
    chosen = parser.parse_args()
    asked = settings(chosen.lengths)
    with (
        tempfile.TemporaryDirectory() as place,
        served(bare_site(Path(place))) as address,
        chromium() as started,
    ):
        page = started.new_page()
        page.set_default_timeout(3_600_000)
        page.goto(f"{address}/index.html")
        said = ask(page, address, "ask", asked)
    play = Playground(models.load("lille", dtype="float32"), length=max(chosen.lengths))
    same = same_prompts = right = 0
    for setting, reply in zip(asked, said["replies"], strict=True):
        sample, fed = prompt_of(play, setting)
        expected = answer_of(play, sample)
        same_prompts += reply["prompt"]["fed"] == fed
        right += sample.outputs[0] in reply["text"]
        if reply["text"] == expected:
            same += 1
        else:
            print(f"different: {setting}\n  page: {reply['text']!r}\n  rulerlib: {expected!r}")
    print(f"prompts: {len(asked)}, the same bytes: {same_prompts}, the same answer: {same}")
    print(f"right: {right}; loaded in {said['load']:.2f} s")
    print("| tokens | prompts | seconds, the fastest | the median |\n|---:|---:|---:|---:|")
    for length in chosen.lengths:
        # What was kept from the prompt before was not read.
        seconds = [
            reply["seconds"] for setting, reply in zip(asked, said["replies"], strict=True)
            if setting.length == length and reply["kept"] < 0.1 * length
        ]  # fmt: skip
        print(f"| {length} | {len(seconds)} | {min(seconds):.2f} |"
              f" {statistics.median(seconds):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
