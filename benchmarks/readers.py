"""Ten questions of readers: how many clicks, how long, and how far down the answer stands.

    make book
    python benchmarks/readers.py _build/html

Each question starts on the first page. A step is the text of a link or a button; the answer is a
text that must stand on the page where the steps end. Clicks are counted at 1,300 pixels; the
seconds are those of a browser on this machine, from the first page's address to the answer, and
leave out the reader's own. ``screens`` says how many screens down the answer begins, at 1,300 and
at 390 pixels. Markdown goes to standard output.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.browser import chromium, served

# Widths and heights of a window and of a phone, in pixels.
SCREENS = {"window": (1300, 900), "phone": (390, 844)}

# Milliseconds that a step may take.
PATIENCE = 30_000


class Question(NamedTuple):
    """What a reader asks, the links from the first page, and a text of the answer."""

    asked: str
    steps: tuple[str, ...]
    answer: str


QUESTIONS = (
    Question("How many models can use the context that they claim?", (), r"4 can use the whole"),
    Question(
        "Which model is best at 32K, and by how much?", ("Look at all models", "32K"), r"9\d\.\d"
    ),
    Question("Is that sure?", ("Look at all models",), r"no interval"),
    Question(
        "What does Danish cost Llama 3.1 8B?", ("what models lose by language",), r"78 .*22"
    ),
    Question("Does a small real model find its needles?", ("SmolLM2 135M",), r"heatmap|depth"),
    Question("How do I ask my own model?", ("Your own model",), r"papermill notebooks/"),
    Question(
        "Did my quantized cache break long contexts?",
        ("Your own model", "Did this change break long contexts?"), r"rulerlib compare",
    ),
    Question(
        "How far can my model be used, for how many tokens?",
        ("Your own model", "How far, for how much"), r"rulerlib effective",
    ),
    Question("What does a prompt look like in Danish?", ("The prompts",), r"særlige magiske"),
    Question("How do I add my language?", ("Add a language",), r"language\.toml"),
)  # fmt: skip


def step(page: Any, text: str) -> None:
    """Follow the first link, button or head of a column with a text that can be seen."""
    found = page.locator("a, button, th").filter(has_text=re.compile(re.escape(text)))
    for place in range(found.count()):
        if found.nth(place).is_visible():
            found.nth(place).click(timeout=PATIENCE)
            page.wait_for_load_state("load")
            return
    raise LookupError(f"no link {text!r} on {page.url}")


def way(page: Any, address: str, question: Question) -> tuple[float, float]:
    """Walk to an answer, and return the seconds that it took and the screens down to it."""
    start = time.perf_counter()
    page.goto(f"{address}/book/index.html")
    for text in question.steps:
        step(page, text)
    answer = page.locator("main, article").get_by_text(re.compile(question.answer)).first
    answer.wait_for(state="attached", timeout=PATIENCE)
    seconds = time.perf_counter() - start
    box = answer.bounding_box()
    top = 0 if box is None else box["y"] + page.evaluate("window.scrollY")
    return seconds, top / page.viewport_size["height"]


def main() -> None:
    """Print a row for each question."""
    print("| question | clicks | seconds | screens down | on a phone |")
    print("|---|---:|---:|---:|---:|")
    with served(Path(sys.argv[1])) as address, chromium() as browser:
        for question in QUESTIONS:
            told = []
            for width, height in SCREENS.values():
                page = browser.new_page(viewport={"width": width, "height": height})
                told.append(way(page, address, question))
                page.close()
            (seconds, down), (_, phone) = told
            clicks = len(question.steps)
            print(f"| {question.asked} | {clicks} | {seconds:.1f} | {down:.1f} | {phone:.1f} |")


if __name__ == "__main__":
    main()
