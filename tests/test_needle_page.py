"""The page "Move the needle": the bundled model answers in a browser as it does in Python."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("torch")

from helpers_book import opened  # noqa: E402

from book import browser as browsers  # noqa: E402
from book.browser import LABELS  # noqa: E402
from book.needle_tasks import TASKS, needles_of  # noqa: E402
from rulerlib import models, predict  # noqa: E402

expect = playwright.expect
pytestmark = pytest.mark.slow

PAGE = "book/needle"

# Sends settings to the page's worker one by one.
ASK = """async ([address, settings]) => {
    const worker = new Worker(address, { type: "module" });
    const send = (message) => new Promise((resolve, reject) => {
        worker.onerror = (event) => reject(new Error(event.message));
        worker.onmessage = ({ data }) => {
            if (data.error !== undefined) reject(new Error(data.error));
            else if (!data.progress) resolve(data.result);
        };
        worker.postMessage({ id: 0, ...message });
    });
    await send({ kind: "load" });
    const replies = [];
    for (const setting of settings) {
        const { prompt, text, found } = await send({ kind: "ask", setting });
        replies.push({ fed: prompt.fed, length: prompt.length, text, found });
    }
    worker.terminate();
    return replies;
}"""


def test_the_model_finds_a_needle_that_is_moved(browser, address):
    page, wrong = opened(browser, address, PAGE, width=390)
    prompt = page.get_by_role("region", name=LABELS["prompt"])
    answer = page.locator("[data-part=answer]")
    depth = page.get_by_role("slider", name=LABELS["depth"])
    expect(prompt.locator("mark.needle")).to_be_visible()
    expect(answer).to_have_text(LABELS["not asked"])
    depth.focus()
    page.keyboard.press("Home")
    expect(depth).to_have_attribute("aria-valuetext", "0%")
    page.get_by_role("button", name="Ask the model").click()
    expect(answer).to_contain_text("Right. (at depth 0%, 1,000 tokens")
    value = prompt.locator("mark .value").inner_text()
    expect(answer.locator(".said")).to_contain_text(value)
    page.get_by_role("button", name="Try all depths").click()
    expect(answer).to_contain_text(re.compile(r"Found \d+ of 10\."))
    # An invalid wording is shown as text.
    page.get_by_text(LABELS["own"]).click()
    page.get_by_role("textbox", name=LABELS["needle"]).fill("<b>nothing</b> to find")
    expect(page.get_by_role("alert")).to_contain_text("<b>nothing</b> to find")
    assert not wrong


def test_prompts_and_answers_agree_with_python(browser, address):
    model = models.load("lille", dtype="float32")
    asked, expected = [], []
    for number, task in enumerate(("one", "keys", "queries", "values")):
        language, depth = ("da", "en")[number % 2], 20.0 * number
        where = {"language": language, "length": 1000, "depth": depth, "index": number}
        data = needles_of(TASKS[task], "words", language, depth, 1000)
        sample = data[number]
        request = predict.request(sample, data.frame, data.tokens_to_generate)
        (said,) = models.in_order(model, [request])
        fed = data.frame.prompt(sample.input, sample.answer_prefix)
        expected.append((fed, sample.length_w_model_temp, said.text))
        own = dict.fromkeys(("needle", "question", "prefix", "text"), "")
        asked.append({"task": task, "kind": "words", "haystack": "essay", **where, **own})
    page, wrong = opened(browser, address, PAGE)
    worker = f"{address}/_static/needle/worker.js?{browsers.version()}"
    replies = page.evaluate(ASK, [worker, asked])
    assert [(one["fed"], one["length"], one["text"]) for one in replies] == expected
    assert not wrong
