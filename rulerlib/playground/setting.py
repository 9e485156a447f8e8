"""The values of all controls of the playground, checked together.

>>> Setting(needle="The code of the shed is {4711}.", question="What is the code?").own_value
'4711'
"""

from __future__ import annotations

import copy
import re
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.errors import one_of, require, whole_number
from rulerlib.haystack import DEPTHS, one_depth
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.tasks import niah
from rulerlib.tasks.family import Checked, knob
from rulerlib.texts import checked, digest

STATIC = Path(__file__).with_name("static")

TEXTS: dict[str, Any] = tomllib.loads((STATIC / "words.toml").read_text("utf-8"))
"""What the playground says, and the page "Move the needle" of the book with it."""

HAYSTACKS = (*niah.HAYSTACKS, "text")

WORDING = ("needle", "question", "prefix")
"""What of a prompt's wording can be the user's own."""

BRACES = re.compile(r"\{([^{}]*)\}")
"""What stands in braces in a needle of the user's own."""

ROWS = tuple(round(100 * row / 9) for row in range(10))
"""The depths of the small heatmap in percent: ten from 0 to 100, evenly."""

# Longer texts are known by their hash in labels.
_LONGEST = 40


@dataclass(frozen=True)
class Setting(Checked):
    """The values of all controls.

    Attributes
    ----------
    language
        ``"da"``, ``"en"``, or any other pack.
    haystack
        ``"noise"``, ``"essay"``, ``"needle"`` (distractors and nothing else), or ``"text"``:
        your own.
    length
        Tokens of the whole sequence, prompt and answer together.
    depth
        The depth of the first requested needle, 0 (start) to 100 (end).
    num_needles, num_distractors
        The number of requested keys, and of keys that are not requested.
    num_values
        Needles of each key, with a value each; all those of a key that is asked for are wanted.
    type_needle_k, type_needle_v
        What keys and values are: ``"words"``, ``"numbers"`` or ``"uuids"``.
    needle
        Your own sentence with placeholders ``{key}`` and ``{value}``, or with your own value in
        braces: ``The code is {4711}.`` If empty, the language pack's.
    question, prefix
        Your own question with the placeholder ``{key}``, and the beginning of its answer. If empty,
        the language pack's; your own question then has no prefix.
    text
        Your own prose for the haystack ``"text"``.
    index
        Which sample: another one has other keys and values.

    Raises
    ------
    ParameterError
        If a value cannot work, or does not go with another.
    DataError
        If a text of your own holds control characters.
    """

    language: str = knob("da", one_of, languages.available())
    haystack: str = knob("essay", one_of, HAYSTACKS)
    length: int = knob(1024, whole_number, 1)
    depth: float = knob(50.0, one_depth)
    num_needles: int = knob(1, whole_number, 1, len(DEPTHS))
    num_distractors: int = knob(0, whole_number, 0)
    num_values: int = knob(1, whole_number, 1)
    type_needle_k: str = knob("words", one_of, VALUE_TYPES)
    type_needle_v: str = knob("numbers", one_of, VALUE_TYPES)
    needle: str = ""
    question: str = ""
    prefix: str = ""
    text: str = ""
    index: int = knob(0, whole_number, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("num_distractors", self.num_distractors, 0, len(DEPTHS) - self.num_needles)
        whole_number("num_values", self.num_values, 1, len(DEPTHS) // self.num_keys)
        for name in (*WORDING, "text"):
            text = getattr(self, name)
            require(isinstance(text, str), name, text, "a text")
            if text.strip():
                text = checked(text, name)
            # A needle is one sentence on one line, like any other unit of the haystack.
            text = text.strip() if name == "text" else " ".join(text.split())
            object.__setattr__(self, name, text)
        self._check_wording()

    @property
    def several(self) -> bool:
        """Whether the prompt has several needles."""
        return self.num_keys * self.num_values > 1 or self.haystack == "needle"

    @property
    def num_keys(self) -> int:
        """The number of keys in the text, asked for or not."""
        return self.num_needles + self.num_distractors

    @property
    def own_value(self) -> str | None:
        """The user's own value in the braces of the needle, or None."""
        return next(iter(self._own_values()), None)

    @property
    def kind(self) -> Setting:
        """The setting without depth, length and index, in which the cells of a heatmap differ."""
        return replace(self, depth=0, length=1, index=0)

    def label(self) -> str:
        """Return the fields of ``kind`` that are not at their defaults, as text.

        >>> Setting(num_distractors=3, question="Which is {key}?").label()
        'essay, num_distractors 3, question Which is {key}?'
        """
        usual, words = asdict(Setting().kind), [self.haystack]
        for name, value in asdict(self.kind).items():
            if value != usual[name] and name not in ("language", "haystack"):
                text = str(value)
                words.append(
                    f"{name} {text if len(text) <= _LONGEST else '#' + digest([text])[:4]}"
                )
        return ", ".join(words)

    def pack(self) -> Language:
        """Return the language pack with the user's own wording in it."""
        language = languages.load(self.language)
        if not (self.needle or self.question or self.prefix):
            return language
        wording = copy.deepcopy(language.templates["niah"])
        if self.needle:
            wording["needle"] = self.needle.replace(f"{{{self.own_value}}}", "{value}")
        for form in ("one", "many"):
            if self.question:
                head, _, _ = wording[form]["template"].partition("{context}")
                question = self.question.replace("{key}", "{query}")
                wording[form]["template"] = f"{head}{{context}}\n{question}"
            if self.question or self.prefix:
                prefix = self.prefix.replace("{key}", "{query}")
                wording[form]["answer_prefix"] = f" {prefix}" if prefix else ""
        return replace(language, templates={**language.templates, "niah": wording})

    def knobs(self) -> dict[str, Any]:
        """Return the knobs of `rulerlib.tasks.niah`, all but the depth."""
        return {
            "haystack": "essay" if self.haystack == "text" else self.haystack,
            "type_needle_k": self.type_needle_k,
            "type_needle_v": self.type_needle_v,
            "num_needle_k": self.num_keys,
            "num_needle_v": self.num_values,
            "num_needle_q": self.num_needles,
        }

    def _own_values(self) -> list[str]:
        label = languages.load(self.language).label(self.type_needle_v, 2)
        marks = dict.fromkeys(BRACES.findall(self.needle))
        return [mark for mark in marks if mark not in ("key", "value", *label)]

    def _check_wording(self) -> None:
        needle, question, values = self.needle, self.question, self._own_values()
        rules = TEXTS["rules"]
        if needle:
            one = len(values) + ("{value}" in needle) == 1 and all(map(str.strip, values))
            require(one, "needle", needle, rules["needle"])
            differing = "{key}" in needle and not values
            require(differing or not self.several, "needle", needle, rules["several"])
            require("{key}" in needle or question, "question", "", rules["asked"])
        if question and self.several:
            require("{key}" in question, "question", question, rules["question"])


def where(setting: Setting) -> str:
    """Return the depth and the length of a setting in words."""
    words: str = TEXTS["where"]
    return words.format(depth=f"{setting.depth:g}", length=f"{setting.length:,}")
