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


# How far down the first part of the page stands, in pixels, that holds an answer.
PLACE = """(answer) => {
  const wanted = new RegExp(answer, "s");
  const parts = document.querySelectorAll("main :is(p, li, tr, pre, figure, svg, h1, h2, dd)");
  const first = [...parts].find((part) => wanted.test(part.textContent) && part.clientHeight);
  return first ? first.getBoundingClientRect().top + window.scrollY + 1 : null;
}"""


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
    Question("What does Danish cost Llama 3.1 8B?", (), r"from 78 to 22"),
    Question("Does a small real model find its needles?", ("SmolLM2 135M",), r"heatmap|depth"),
    Question("How do I ask my own model?", ("Your own model",), r"papermill notebooks/"),
    Question(
        "Did my quantized cache break long contexts?",
        ("Your own model", "Did this change break long contexts?"), r"rulerlib compare",
    ),
    Question(
        "How far can my model be used, for how many tokens?",
        ("Your own model", "How far, for how much?"), r"rulerlib effective",
    ),
    Question("What does a prompt look like in Danish?", ("Prompts",), r"særlige magiske"),
    Question("How do I add my language?", ("Your own model", "a language"), r"language\.toml"),
)  # fmt: skip


def step(page: Any, text: str) -> None:
    """Click on the first link, button, head of a column or card with a text that can be seen."""
    targets = page.locator("main :is(a, button, th, .sd-card)").filter(has_text=text)
    targets.locator("visible=true").first.click(timeout=PATIENCE)
    page.wait_for_load_state("load")


def way(page: Any, address: str, question: Question) -> tuple[float, float]:
    """Walk to an answer, and return the seconds that it took and the screens down to it."""
    start = time.perf_counter()
    page.goto(f"{address}/book/index.html")
    for text in question.steps:
        step(page, text)
    top = page.wait_for_function(PLACE, arg=question.answer, timeout=PATIENCE).json_value()
    return time.perf_counter() - start, top / page.viewport_size["height"]


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
