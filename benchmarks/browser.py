"""The model in the reader's browser: whether it answers as `rulerlib` does, and how fast it is.

    python benchmarks/browser.py                       # 390 prompts, as the page asks them

The page's own worker is asked, in headless Chromium, and then the transformers engine at float32.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from book import browser, vendor
from book.needle_tasks import DRAWS, TASKS, chains_of, hidden, samples_of
from rulerlib import languages, models, predict
from rulerlib.dataset import Dataset
from rulerlib.filling import Composer, Take, Whole
from rulerlib.haystack import Draft, Filling
from rulerlib.playground import ROWS, Playground, Setting
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks.family import Maker

# The reader's own wording, with what is drawn in it and with a value of the reader's own.
OWN = [
    {"needle": "The number of the {key} is {value}."},
    {
        "needle": "The code of the shed is {4711}.",
        "question": "What is the code of the shed?",
        "prefix": "The code of the shed is",
    },
]

# A chain comes with an example, for which the shortest of the page's lengths have no room.
SHORTEST_CHAIN = 600

# Asks the worker one setting after another; a mistake of the reader's is a reply, too. Settings and
# replies go as JSON: Playwright would take each value in them apart by itself.
_ASK = """async ([address, kind, settings, looked]) => {
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
    for (const setting of JSON.parse(settings)) {
        const reply = await send({ id: 1, kind, setting });
        // A number for each piece of the answer and each token of the prompt.
        if (!looked) delete reply.took;
        replies.push(reply);
    }
    worker.terminate();
    return JSON.stringify({ load, replies });
}"""


@dataclass(frozen=True)
class Asked:
    """What the page asks: a setting of the playground; or a chain, of which it has no task.

    Attributes
    ----------
    task
        A key of ``TASKS``.
    setting
        Where the controls stand; of a chain, its language, length, depth and index count.
    """

    task: str
    setting: Setting


def asked(task: str, kind: str = "words", /, **values: Any) -> Asked:
    """Return a task of the page with keys and values of a kind, and what else is set."""
    return Asked(task, hidden(kind, **{**(TASKS[task].setting or {}), **values}))


def settings(lengths: Iterable[int] = browser.COLUMNS) -> list[Asked]:
    """Return every task that the page offers, in both languages, at all depths."""
    lengths = list(lengths)
    found: list[Asked] = []
    for code in browser.LANGUAGES:
        other = next(name for name in browser.LANGUAGES if name != code)
        text = "\n\n".join(languages.load(other).essays[:3])
        for number, depth in enumerate(ROWS):
            cells = [(length, task) for length in lengths for task in ("one", "keys")]
            found += [
                asked(task, language=code, length=length, depth=depth,
                      index=(number + place) % DRAWS)
                for place, (length, task) in enumerate(cells)
            ]  # fmt: skip
            found += [
                asked(["one", "keys"][number % 2], "uuids", language=code, length=length,
                      depth=depth, index=number)
                for length in lengths if length >= 1000 or not number % 2
            ]  # fmt: skip
            some = {"language": code, "length": lengths[number % len(lengths)], "depth": depth,
                    "index": number}  # fmt: skip
            found += [asked("one", **some, **own) for own in OWN]
            found += [asked(task, **some, haystack="text", text=text) for task in ("one", "keys")]
            # What several values are asked of, by turns in words and in UUIDs, which need room.
            for place, task in enumerate(("queries", "values", "needles", "chains")):
                length = lengths[(number + place) % len(lengths)]
                length = max(length, SHORTEST_CHAIN) if task == "chains" else length
                kind = "uuids" if (number + place) % 2 and length >= 1000 else "words"
                found.append(asked(task, kind, language=code, length=length, depth=depth,
                                   index=(number + place) % DRAWS))  # fmt: skip
    return found


def on_the_page(asked: Asked) -> dict[str, Any]:
    """Return what the page's worker takes."""
    names = ("language", "haystack", "length", "depth", "needle", "question", "prefix", "text",
             "index")  # fmt: skip
    setting = asked.setting
    kind = "uuids" if setting.type_needle_v == "uuids" else "words"
    made = {name: getattr(setting, name) for name in names}
    if asked.task == "needles":
        made["haystack"] = "essay"
    return {**made, "task": asked.task, "kind": kind}


def prompt_of(play: Playground, asked: Asked) -> tuple[Sample, str, int]:
    """Return a sample, the text that is fed, and the room for the answer, as rulerlib has them."""
    setting = asked.setting
    if asked.task == "chains":
        return _chain(play, setting)
    samples = play.samples_of(setting)
    maker = samples.at(setting.depth)
    if asked.task == "needles":
        # The beginning of the longest haystack.
        longest = samples_of(play, setting)
        draft, _ = longest.plan(setting.index, setting.depth)
        _, take = longest.plan(setting.index, 0)
        whole = take(longest.length)

        def first(room: int) -> Filling:
            sums = itertools.accumulate(whole.costs)
            return whole.first(sum(1 for cost in sums if cost <= room))

        return _filled(samples, maker, draft, first)
    if setting.haystack != "text":
        prompt = play.prompt_of(setting)
        return prompt.sample, prompt.fed, prompt.room
    # The page begins the reader's own text where it begins, and not at a place that is drawn.
    draft, _ = samples.plan(setting.index, setting.depth)
    return _filled(samples, maker, draft, functools.partial(maker.haystack.take, start=0))


def _filled(data: Dataset, maker: Maker, draft: Draft, take: Take) -> tuple[Sample, str, int]:
    """Return what `prompt_of` returns, of a draft that is filled otherwise."""
    kind = Whole if data.whole else Composer
    sample = kind(maker.budget, maker.haystack, maker.mark).share([draft], take)[0]
    fed = data.frame.prompt(sample.input, sample.answer_prefix)
    return sample, fed, data.tokens_to_generate


def _chain(play: Playground, setting: Setting) -> tuple[Sample, str, int]:
    """Return what `prompt_of` returns, of a chain that stands evenly from a depth to the end."""
    data = chains_of(play, setting.language, setting.length)
    maker = data.maker
    (draft,), take = maker.plan(setting.index, data._rng(setting.index), 1)
    step = (100 - setting.depth) / (len(draft.needles) - 1)
    draft.needles = [
        replace(needle, depth=setting.depth + number * step)
        for number, needle in enumerate(draft.needles)
    ]
    return _filled(data, maker, draft, take)


def answer_of(play: Playground, sample: Sample, room: int) -> str:
    """Return what the engine says to a sample, asked alone as the playground asks."""
    frame = PromptFormat().frame(play.model.tokenizer)
    (generation,) = models.in_order(play.model, [predict.request(sample, frame, room)])
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


def ask(
    page: Any, address: str, kind: str, asked: Sequence[Asked], looked: bool = True
) -> dict[str, Any]:
    """Send what is asked to a page's worker: as a "prompt", or to "ask" the model.

    Without ``looked`` the replies say nothing of where the model looked, which is much.
    """
    return ask_worker(page, address, kind, [*map(on_the_page, asked)], looked)


def ask_worker(
    page: Any, address: str, kind: str, asked: Sequence[dict[str, Any]], looked: bool = True
) -> dict[str, Any]:
    """Send to a page's worker what `on_the_page` returns; also what could not be a `Setting`."""
    worker = f"{address}/_static/needle/worker.js?{browser.version()}"
    given = [worker, kind, json.dumps(asked), looked]
    replies: dict[str, Any] = json.loads(page.evaluate(_ASK, given))
    return replies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=browser.COLUMNS)
    chosen = parser.parse_args()
    questions = settings(chosen.lengths)
    with (
        tempfile.TemporaryDirectory() as place,
        served(bare_site(Path(place))) as address,
        chromium() as started,
    ):
        page = started.new_page()
        page.set_default_timeout(3_600_000)
        page.goto(f"{address}/index.html")
        said = ask(page, address, "ask", questions, looked=False)
    play = Playground(models.load("lille", dtype="float32"), length=max(chosen.lengths))
    same = same_prompts = right = 0
    for question, reply in zip(questions, said["replies"], strict=True):
        sample, fed, room = prompt_of(play, question)
        expected = answer_of(play, sample, room)
        same_prompts += reply["prompt"]["fed"] == fed
        right += all(output in reply["text"] for output in sample.outputs)
        if reply["text"] == expected:
            same += 1
        else:
            print(f"different: {question}\n  page: {reply['text']!r}\n  rulerlib: {expected!r}")
    print(f"prompts: {len(questions)}, the same bytes: {same_prompts}, the same answer: {same}")
    print(f"right: {right}; loaded in {said['load']:.2f} s")
    print("| tokens | prompts | seconds, the fastest | the median |\n|---:|---:|---:|---:|")
    for length in chosen.lengths:
        # What was kept from the prompt before was not read.
        seconds = [
            reply["seconds"] for question, reply in zip(questions, said["replies"], strict=True)
            if question.setting.length == length and reply["kept"] < 0.1 * length
        ]  # fmt: skip
        print(f"| {length} | {len(seconds)} | {min(seconds):.2f} |"
              f" {statistics.median(seconds):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
