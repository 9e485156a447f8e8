"""Item measures: whole items, in any order, each once, however the list is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib.metrics import LIST, listed

COUNTS = [": 12", " (12)", " (12 times)", " - 12 times", " -> 12", " x12", " = 12", " [12]"]


def formats(items: list[str]) -> dict[str, str]:
    """The same items as language models write lists of them."""
    lines = ["{}", "{}.", "**{}**", "__{}__", "`{}`", '"{}"', "'{}'", "“{}”", "«{}»"]
    lines += [f"{mark} {{}}" for mark in "-*•–+·"] + [f"{mark}{{}}" for mark in "-*•–"]
    lines += ["- **{}**", "- `{}`", '- "{}"']
    lines += [f"{bullet}{{}}{count}" for bullet in ("", "- ") for count in COUNTS]
    texts = {form: "\n".join(form.format(item) for item in items) for form in lines}
    numbered = ["{0}. {1}", "{0}) {1}", "({0}) {1}", "{0}: {1}", "{0} - {1}", "{0}. {1}: 12."]
    numbered += ["{0}. **{1}**", "**{0}.** {1}", "**{0}. {1}**", "{0}. **{1}** - 12 times"]
    for number in numbered:
        texts[number] = "\n".join(number.format(at, item) for at, item in enumerate(items, 1))
    texts["numbers in a line"] = " ".join(f"{at}. {item}" for at, item in enumerate(items, 1))
    for count in ["", *COUNTS]:
        texts[f"commas{count}"] = ", ".join(f"{item}{count}" for item in items)
    texts |= {f"with {mark!r}": mark.join(items) for mark in (" ", "; ", "/", " | ", " ... ")}
    *most, last = items
    for word in ("and", "og", "och", "und", "en", "&"):
        texts[word] = f"{', '.join(most)} {word} {last}."
    quoted = [f'"{item}"' for item in items]
    texts["quoted in a sentence"] = f"The words are {', '.join(quoted[:-1])} and {quoted[-1]}."
    texts["a sentence"] = f"The ten words are {', '.join(most)} and {last}."
    texts["a sentence at length"] = (
        f"Based on the list above, the 3 words are {', '.join(most)}, and {last}. They are common."
    )
    texts["a label"] = f"**Answer:** {', '.join(items)}"
    for content in (items, {"words": items}, dict.fromkeys(items, 12)):
        texts[f"JSON {type(content)} {len(content)}"] = json.dumps(content)
        texts[f"{content} in a fence"] = f"```json\n{json.dumps(content, indent=2)}\n```"
    texts["Python"] = repr(items)
    rows = "\n".join(f"| {at} | **{item}** | 12 |" for at, item in enumerate(items, 1))
    texts["a table"] = f"| Rank | Word | Count |\n|---|:---:|---:|\n{rows}"
    return texts


ANSWERS = {
    "words": ["dog", "cat", "bee", "horse", "cow"],
    "coded words": ["wtjrth", "sofnvq", "cakokz", "piixqj", "wbacaw"],
    "names": ["ABCDE", "FGHIJ", "KLMNO", "PQRST", "UVWXY"],
    "numbers": ["1234567", "7654321", "5550123", "9999999", "8888888"],
    "pairs": ["lamp-door", "old-mill", "red-car", "big-house", "humble-camera"],
    "uuids": [f"{digit}b1e8f3a-0c2d-4e5f-8a9b-1c2d3e4f5a6b" for digit in "12345"],
}


@settings(max_examples=25)
@given(st.sampled_from([*ANSWERS.values()]).flatmap(lambda items: st.permutations(items * 2)))
def test_order_and_repetition_do_not_count(said):
    items = list(dict.fromkeys(said))
    for name, answer in formats(said).items():
        scores = LIST.score(answer, items)
        assert (scores["exact_items"], scores["over_answering"]) == (1, 0), (name, answer)


@pytest.mark.parametrize("items", ANSWERS.values(), ids=ANSWERS)
def test_a_list_counts_the_same_however_it_is_written(items):
    """Right, one of three right, and two items too many."""
    wanted = items[:3]
    for said, values in [
        (wanted, (1, 1, 1, 0)),
        ([items[3], items[1], items[4]], (0, 1 / 3, 1 / 3, 0)),
        (items, (0, 1, 3 / 5, 1)),
    ]:
        names = "exact_items", "item_recall", "item_precision", "over_answering"
        for name, answer in formats(said).items():
            scores = LIST.score(answer, wanted)
            assert [scores[each] for each in names] == pytest.approx(values), (name, answer)


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        ("I do not know.", []),
        ("The most common word is horse.", []),
        ("", []),
        ("dog, cat, and bee, in that order.", ["dog", "cat", "bee"]),
        ("1. dog - a pet\n2. cat - a pet", ["dog", "cat"]),
        ("Det er hund, kat og bi.", ["hund", "kat", "bi"]),
        ("don't, dog, b12, well-known", ["dog"]),
    ],
)
def test_sentences_and_remarks_are_no_items(answer, items):
    assert listed(answer) == items
