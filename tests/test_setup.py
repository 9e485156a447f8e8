"""The description in the wheel; `tests/wheel.py` builds and tries a wheel."""

from __future__ import annotations

import importlib.util
import re

import pytest
from helpers_model import ROOT

README = (ROOT / "README.md").read_text("utf-8")
HERE = "https://forge.example/group/ruler"


@pytest.fixture(scope="module")
def description():
    pytest.importorskip("setuptools")
    spec = importlib.util.spec_from_file_location("ruler_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.description


def targets(text):
    return re.findall(r"\]\(([^)]+)\)", text)


def test_links_of_the_readme_work_without_a_checkout(description):
    """They point to the repository; without an address, relative links become plain text."""
    relative = [target for target in targets(README) if "://" not in target]
    assert len(relative) > 5
    assert all((ROOT / target).exists() for target in relative)
    with_address = targets(description(README, HERE))
    assert len(with_address) == len(targets(README))
    assert all(target.startswith("https://") for target in with_address)
    assert f"{HERE}/raw/HEAD/book/images/front.svg" in with_address
    assert f"{HERE}/blob/HEAD/book/needle.md" in with_address
    without = description(README, "")
    assert targets(without) == [target for target in targets(README) if "://" in target]
    assert "](" not in re.sub(r"\]\(https://[^)]+\)", "", without)
    assert "Try it in your browser: `make book`" in without
