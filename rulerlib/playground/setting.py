"""The values of all controls of the playground, checked together.

>>> Setting(needle="The code of the shed is {4711}.", question="What is the code?").own_value
'4711'
"""

from __future__ import annotations

import copy
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from rulerlib import languages
from rulerlib.errors import LARGEST, ParameterError, one_of, validated
from rulerlib.haystack import DEPTHS
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.tasks import niah
from rulerlib.texts import checked

STATIC = Path(__file__).with_name("static")

TEXTS: dict[str, Any] = tomllib.loads((STATIC / "words.toml").read_text("utf-8"))
"""The texts of the playground, which the book's page "Move the needle" uses as well."""

RULES: dict[str, str] = TEXTS["rules"]

HAYSTACKS = (*niah.HAYSTACKS, "text")

WORDING = ("needle", "question", "prefix")
"""The controls for the user's own wording."""

BRACES = re.compile(r"\{([^{}]*)\}")
"""The braces in a user's needle, with their content."""

ROWS = tuple(round(100 * row / 9) for row in range(10))
"""The depths of the small heatmap in percent: ten from 0 to 100, evenly."""

AtLeast0 = Annotated[int, Field(ge=0, le=LARGEST)]
AtLeast1 = Annotated[int, Field(ge=1, le=LARGEST)]


@validated
class Setting:
    """The values of all controls.

    Attributes
    ----------
    language
        ``"da"``, ``"en"``, or any other pack.
    haystack
        ``"noise"``, ``"essay"``, ``"needle"`` (only distractors), or ``"text"`` (your own).
    length
        Tokens of the whole sequence, prompt and answer together.
    depth
        The depth of the first requested needle, 0 (start) to 100 (end).
    num_needles, num_distractors
        The number of requested keys, and of keys that are not requested.
    num_values
        Values of each key, one per needle. The answer must have all values of a requested key.
    type_needle_k, type_needle_v
        The types of keys and values: ``"words"``, ``"numbers"`` or ``"uuids"``.
    needle
        Your own sentence with placeholders ``{key}`` and ``{value}``, or with your own value in
        braces: ``The code is {4711}.`` If empty, the language pack's.
    question, prefix
        Your own question with the placeholder ``{key}``, and the beginning of its answer. If empty,
        the language pack's. A question of your own has only a prefix of your own.
    text
        Your own text for the haystack ``"text"``.
    index
        The number of the sample; each has other keys and values.

    Raises
    ------
    ParameterError
        If a value is not allowed, alone or with the others.
    DataError
        If one of your own texts has control characters.
    """

    language: str = "da"
    haystack: str = "essay"
    length: AtLeast1 = 1024
    depth: Annotated[float, Field(ge=0, le=100)] = 50.0
    num_needles: AtLeast1 = 1
    num_distractors: AtLeast0 = 0
    num_values: AtLeast1 = 1
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    needle: str = ""
    question: str = ""
    prefix: str = ""
    text: str = ""
    index: AtLeast0 = 0

    def __post_init__(self) -> None:
        one_of("language", self.language, languages.available())
        one_of("haystack", self.haystack, HAYSTACKS)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        if self.num_keys * self.num_values > len(DEPTHS):
            allowed = f"smaller: a text can have {len(DEPTHS)} needles together"
            raise ParameterError("num_distractors", self.num_distractors, allowed)
        for name in (*WORDING, "text"):
            text = getattr(self, name)
            if text.strip():
                text = checked(text, name)
            # A needle is one sentence on one line, like any other unit of the haystack.
            text = text.strip() if name == "text" else " ".join(text.split())
            object.__setattr__(self, name, text)
        self._check_wording()

    def _check_wording(self) -> None:
        several = self.num_keys * self.num_values > 1 or self.haystack == "needle"
        if self.needle:
            values, has_key = self._own_values(), "{key}" in self.needle
            count = len(values) + ("{value}" in self.needle)
            if count != 1 or any(not value.strip() for value in values):
                raise ParameterError("needle", self.needle, RULES["needle"])
            if several and (values or not has_key):
                raise ParameterError("needle", self.needle, RULES["several"])
            if not has_key and not self.question:
                raise ParameterError("question", "", RULES["asked"])
        if self.question and several and "{key}" not in self.question:
            raise ParameterError("question", self.question, RULES["question"])

    def _own_values(self) -> list[str]:
        """Return what the needle has in braces, without the names of placeholders."""
        label = languages.load(self.language).label(self.type_needle_v, 2)
        marks = dict.fromkeys(BRACES.findall(self.needle))
        return [mark for mark in marks if mark not in ("key", "value", *label)]

    @property
    def num_keys(self) -> int:
        """The number of keys in the text, requested or not."""
        return self.num_needles + self.num_distractors

    @property
    def own_value(self) -> str | None:
        """The user's own value in the braces of the needle, or None."""
        values = self._own_values()
        return values[0] if values else None

    @property
    def kind(self) -> Setting:
        """The setting without depth, length and index, which differ within a heatmap."""
        return replace(self, depth=0, length=1, index=0)

    def label(self) -> str:
        """Return the fields of ``kind`` that are not at their defaults, as text.

        >>> Setting(num_distractors=3, question="Which is {key}?").label()
        'essay, num_distractors 3, question Which is {key}?'
        """
        left_out = ("language", "haystack", "length", "depth", "text", "index")
        changed = [
            f"{item.name} {getattr(self, item.name)}"
            for item in fields(self)
            if item.name not in left_out and getattr(self, item.name) != item.default
        ]
        return ", ".join([self.haystack, *changed])

    def pack(self) -> Language:
        """Return the language pack with the user's own wording."""
        language = languages.load(self.language)
        if not (self.needle or self.question or self.prefix):
            return language
        wording = copy.deepcopy(language.templates["niah"])
        if self.needle:
            wording["needle"] = self.needle.replace(f"{{{self.own_value}}}", "{value}")
        for form in (wording["one"], wording["many"]):
            if self.question:
                head, _, _ = form["template"].partition("{context}")
                question = self.question.replace("{key}", "{query}")
                form["template"] = f"{head}{{context}}\n{question}"
            if self.question or self.prefix:
                form["answer_prefix"] = f" {self.prefix}".replace("{key}", "{query}").rstrip()
        return replace(language, templates={**language.templates, "niah": wording})

    def knobs(self) -> dict[str, Any]:
        """Return the parameters of `rulerlib.tasks.niah` except the depth."""
        return {
            "haystack": "essay" if self.haystack == "text" else self.haystack,
            "type_needle_k": self.type_needle_k,
            "type_needle_v": self.type_needle_v,
            "num_needle_k": self.num_keys,
            "num_needle_v": self.num_values,
            "num_needle_q": self.num_needles,
        }


def where(setting: Setting) -> str:
    """Return the depth and the length of a setting in words."""
    words: str = TEXTS["where"]
    return words.format(depth=f"{setting.depth:g}", length=f"{setting.length:,}")
