"""What the tests of the page "Move the needle" share: a reader at a browser."""

from __future__ import annotations

import pytest
from helpers_book import opened

from rulerlib.playground.page import LABELS

playwright = pytest.importorskip("playwright.sync_api")

PAGE = "book/needle"


class Reader:
    """The page in a browser, and what a reader does with it."""

    def __init__(self, browser, address, **options):
        self.page, self.wrong = opened(browser, address, PAGE, **options)
        self.fetched = []
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.prompt = self.page.get_by_role("region", name=LABELS["prompt"])
        self.depth = self.page.get_by_role("slider", name=LABELS["depth"])
        self.length = self.page.get_by_role("slider", name=LABELS["length"])
        self.alert = self.page.get_by_role("alert")
        self.answer = self.page.locator("[data-part=answer]")
        playwright.expect(self.prompt.locator("mark.needle")).to_be_visible()

    def button(self, name):
        return self.page.get_by_role("button", name=name)

    def press(self, name):
        """A button, by keyboard."""
        button = self.button(name)
        playwright.expect(button).to_have_attribute("aria-disabled", "false")
        button.focus()
        self.page.keyboard.press("Enter")

    def cells(self):
        """What each row of the heatmap says, by its length."""
        rows = self.page.locator("[data-part=cells] tr").all()
        return {row.locator("th").inner_text(): row.locator("td .unseen").all_inner_texts()
                for row in rows}  # fmt: skip

    def close(self):
        self.page.context.close()
