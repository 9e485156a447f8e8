"""Other wordings of RULER's questions: what they say stays, and the spread of their scores.

Gold answers are read again out of every prompt, by its needles, assignments and words alone,
whatever its question says.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest
from helpers_tasks import check_lengths

from rulerlib import languages, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError
from rulerlib.languages import placeholders
from rulerlib.parameters import Parameters

WORDINGS = (1, 2, 3)
PATHS = (
    ("niah", "one"), ("niah", "many"), ("variable_tracking",), ("common_words",),
    ("frequent_words",), ("question_answering",),
)  # fmt: skip

NEEDLE = re.compile(r"(?:for) (\S+) (?:er|is): (\S+)\.(?=\s)")
ASSIGNMENT = re.compile(r"VAR (\w+) = (?:VAR )?(\w+)\.")


def golds(sample) -> set[str]:
    """The answers of a prompt, read out of its context and what its question names."""
    (context,) = sample.parts_of("context")
    text, asked = sample.input[context.start : context.end], sample.input[context.end :]
    family = tasks.TASKS[sample.task].family.name
    if family == "niah":
        return {value for key, value in NEEDLE.findall(text + "\n") if key in asked}
    if family == "variable_tracking":
        number, held = re.findall(r"\d{5}", asked)[0], {}
        for name, value in ASSIGNMENT.findall(text):
            held[name] = held.get(value, value)
        return {name for name, value in held.items() if value == number}
    words = re.findall(r"\d+\. (\w+)", text) if family == "common_words" else text.split()
    count = 10 if family == "common_words" else 3
    common = Counter(word for word in words if word != "...").most_common(count)
    return {word for word, _ in common}


@pytest.mark.parametrize("code", ["da", "en"])
def test_a_paraphrase_names_what_the_template_names(code):
    pack = languages.load(code)
    assert pack.paraphrases == 3
    assert pack.paraphrased(0) is pack
    assert pack.paraphrased(2) is pack.paraphrased(2)
    for path in PATHS:
        worded = [pack.paraphrased(number) for number in range(4)]
        names = ["template", "answer_prefix"]
        names += ["no_context_template"] if path[0] == "question_answering" else []
        for name in names:
            texts = [each.text(*path, name) for each in worded]
            assert len({*texts}) == 4
            # One word for the value may do where the plain template uses two.
            named = {frozenset(placeholders(text) - {"the_type"}) for text in texts}
            assert len(named) == 1, (path, texts)
        # The context stands between the same line breaks, and no question before it.
        for text in (each.text(*path, "template") for each in worded):
            head, _, tail = text.partition("{context}")
            first, _, last = pack.text(*path, "template").partition("{context}")
            assert "{query}" not in head
            assert re.search(r"\n*$", head)[0] == re.search(r"\n*$", first)[0]
            assert re.match(r"\n*", tail)[0] == re.match(r"\n*", last)[0]
    # Needles, assignments and documents are worded as ever.
    for path in (("niah", "needle"), ("variable_tracking", "alias"),
                 ("question_answering", "document")):  # fmt: skip
        assert len({pack.paraphrased(number).text(*path) for number in range(4)}) == 1


@pytest.mark.parametrize(
    ("task", "code"),
    [
        *((task, code) for task in ("niah_single_3", "niah_multikey_2", "niah_multiquery", "vt",
                                    "fwe") for code in ("da", "en")),
        ("niah_multivalue", "da"), ("cwe", "da"), ("qa_1", "en"), ("qa_2", "da"),
    ],
)  # fmt: skip
def test_every_wording_asks_for_the_same(task, code, words):
    if task == "cwe":
        pytest.importorskip("wordfreq")
    plain = Dataset(task, 1600, code, words, num_samples=2)
    seen = {sample.input for sample in plain}
    for number in WORDINGS:
        data = Dataset(task, 1600, code, words, num_samples=2, knobs={"paraphrase": number})
        for sample, other in zip(data, plain, strict=True):
            assert sample.outputs == other.outputs
            assert sample.answer_prefix != other.answer_prefix
            if task[:2] == "qa":
                (value, *_) = sample.parts_of("value")
                assert sample.input[value.start : value.end] in sample.outputs
            else:
                assert golds(sample) == {*sample.outputs}
            slack = data.maker.haystack.longest + (1600 if task == "qa_1" else 0)
            assert check_lengths(data, sample) >= data.length - slack - 40
            seen.add(sample.input)
        # Settings say which wording it was, by its number and by its text.
        assert data.metadata["knobs"]["paraphrase"] == number
        assert data.metadata["language_pack"] != plain.metadata["language_pack"]
    assert len(seen) == 8
    assert "paraphrase" not in plain.metadata["knobs"], "folders of before stay what they are"


def test_a_wording_that_is_not_there_is_one_sentence(tmp_path, words):
    with pytest.raises(ParameterError) as caught:
        Dataset("cwe", 4096, "da", words, knobs={"paraphrase": 4})
    assert str(caught.value) == (
        "paraphrase is 4, but must be at most 3, as many as the language pack 'da' has."
    )
    for bad in (-1, "1", 1.0, True):
        with pytest.raises(ParameterError, match=r"paraphrase is .*, but must be a whole number"):
            Dataset("fwe", 1024, "da", words, knobs={"paraphrase": bad})
    folder = languages.load("en").folder
    (tmp_path / "en").mkdir()
    for name in ("language.toml", "nouns.txt", "adjectives.txt", "essays"):
        (tmp_path / "en" / name).symlink_to(folder / name)
    pack = tmp_path / "en"
    with pytest.raises(ParameterError, match="paraphrase is 1, but must be at most 0, as many as"):
        Dataset("vt", 1024, languages.read_pack(pack), words, knobs={"paraphrase": 1})
    # Tasks of our own have no other wording, and say so.
    with pytest.raises(ParameterError, match="knob is 'paraphrase'"):
        Parameters(tasks="drop_1", knobs={"paraphrase": 1})
    damaged = tmp_path / "en" / "paraphrases.toml"
    damaged.write_text("wordings = 5", "utf-8")
    with pytest.raises(
        DataError, match=r"paraphrases\.toml: \[\[wordings\]\] is no list of tables"
    ):
        languages.read_pack(pack)
