"""The explorer of many answers: how long it takes to write, and until a reader sees what.

    python benchmarks/explorer.py                    # 10,000 answers
    python benchmarks/explorer.py --answers 100000

Ten models in two languages answer real questions of five tasks at two lengths; what they say is
made up, right more often for one model than for another. The explorer of these runs is written by
the command that users call, in a process of its own, and read in Chromium over loopback: the first
view with an empty cache, then a comparison of two models, a cell, and a sample behind it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import expect
from tqdm.auto import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.browser import chromium, served
from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction, Sample
from rulerlib.store.cell import Cell

MODELS = [f"model-{number}" for number in range(10)]
TASKS = ("niah_single_2", "niah_multikey_1", "niah_multivalue", "vt", "qa_1")
LENGTHS = (1024, 2048)
LANGUAGES = ("da", "en")


def said(model: int, sample: Sample, rng: random.Random) -> str:
    """Return a made-up answer; a later model is right less often."""
    right = rng.random() > 0.05 * (model + 1)
    return f" {', '.join(sample.outputs)}." if right else f" {rng.randint(10**6, 10**7 - 1)}."


def write_runs(root: Path, answers: int) -> Path:
    """Write runs with a number of answers, as an engine leaves them, and return their folder."""
    cells = [(task, length, code) for task in TASKS for length in LENGTHS for code in LANGUAGES]
    count = answers // (len(cells) * len(MODELS))
    for task, length, code in tqdm(cells, "questions"):
        data = [*Dataset(task, length, code, "lille", num_samples=count)]
        for number, model in enumerate(MODELS):
            rng = random.Random(f"{model}/{task}/{length}/{code}")
            cell = Cell(model, task, code, length)
            path = cell.answers(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            settings = json.dumps({"cell": cell.settings()})
            path.with_suffix(".settings.json").write_text(settings, "utf-8")
            with path.open("w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in _lines(data, number, rng))
    return root


def _lines(data: list[Sample], model: int, rng: random.Random) -> Iterator[str]:
    for sample in data:
        others = {
            "task": sample.task, "language": sample.language, "depths": sample.depths,
            "answer_prefix": sample.answer_prefix, "parts": sample.parts.to_data(),
            **({"golds": sample.golds} if sample.golds else {}),
        }  # fmt: skip
        answer = said(model, sample, rng)
        yield Prediction(sample.index, sample.input, sample.outputs, answer, others).to_json()


def read(folder: Path) -> Iterator[tuple[str, float, int]]:
    """Read the explorer as a reader does; yield what was waited for, the seconds, and the bytes."""
    with served(folder) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 850})
        got: list[int] = []
        page.on("response", lambda answer: got.append(len(answer.body())))

        def timed(name: str, act: object, seen: object) -> tuple[str, float, int]:
            got.clear()
            began = time.perf_counter()
            act()  # type: ignore[operator]
            seen()  # type: ignore[operator]
            return name, time.perf_counter() - began, sum(got)

        rows = page.locator("#table tbody tr")
        yield timed(
            "first view", lambda: page.goto(f"{address}/index.html"),
            lambda: expect(rows.nth(100)).to_be_visible(timeout=120_000),
        )  # fmt: skip
        yield timed(
            "sorted by the mean", lambda: page.get_by_role("button", name="mean, %").click(),
            lambda: expect(page.locator("th[aria-sort]")).to_have_count(1),
        )  # fmt: skip
        first, second = MODELS[:2]
        page.locator("select[name=first]").select_option(first)
        yield timed(
            "two models compared",
            lambda: page.locator("select[name=second]").select_option(second),
            lambda: expect(page.locator("#table-said")).to_contain_text(f"{first} minus {second}"),
        )
        page.goto(f"{address}/index.html#model={MODELS[-1]}")
        expect(rows).to_have_count(len(TASKS) * len(LENGTHS) * len(LANGUAGES))
        sample = page.locator("#sample h3")
        yield timed(
            "a cell opened", lambda: rows.first.locator("a").click(),
            lambda: expect(sample).to_contain_text("Sample"),
        )  # fmt: skip
        before = sample.inner_text()
        yield timed(
            "the next wrong answer", lambda: page.keyboard.press("n"),
            lambda: expect(sample).not_to_have_text(before),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs = write_runs(Path(place) / "runs", arguments.answers)
        out = Path(place) / "out"
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rulerlib.explore", str(runs), str(out)], check=True)
        seconds = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size = sum(path.stat().st_size for path in out.rglob("*")) / 1e6
        print(f"written in {seconds:.1f} s with {memory:.0f} MB of memory; {size:.0f} MB of files")
        for name, wait, got in read(out):
            print(f"{name}: {wait:.2f} s, {got / 1000:.0f} kB")


if __name__ == "__main__":
    main()
