"""Notebook output: the needle is marked, and text of a model never becomes markup."""

from __future__ import annotations

import re

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")
bs4 = pytest.importorskip("bs4")

from rulerlib import analysis, files, show  # noqa: E402
from rulerlib.dataset import Dataset  # noqa: E402
from rulerlib.runs import Run  # noqa: E402
from rulerlib.samples import Part, Prediction, Sample, in_order  # noqa: E402

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>&lt;b&gt;"
OURS = {"bdi", "div", "b", "i", "mark", "span", "p", "code"}


class Reader:
    """Reads markup as a browser does: its elements, its text, and the text of each mark."""

    def __init__(self, markup):
        page = bs4.BeautifulSoup(markup, "html.parser", multi_valued_attributes=None)
        self.tags = [(tag.name, tag.attrs) for tag in page.find_all(True)]
        self.text = page.get_text()
        self.marks = [mark.get_text() for mark in page.find_all("mark")]
        self.values = [value.get_text() for value in page.find_all("span")]


def read(shown):
    reader = Reader(shown._repr_html_())
    assert {tag for tag, _ in reader.tags} <= OURS
    assert all(set(attrs) <= {"style", "class", "lang"} for _, attrs in reader.tags)
    # Within these classes MathJax takes no dollars for formulas.
    assert reader.tags[0] == ("div", {"class": "tex2jax_ignore mathjax_ignore"})
    return reader


def sample(text, outputs, needles=(), distractors=(), **more):
    """A sample whose needles, with the references in them, are known."""
    parts = [
        Part(role, text.index(needle), text.index(needle) + len(needle))
        for role, sentences in (("needle", needles), ("distractor", distractors))
        for needle in sentences
    ]
    parts += [
        Part("value", part.start + at, part.start + at + len(output))
        for part in parts
        for output in outputs
        if (at := text[part.start : part.end].find(output)) >= 0
    ]
    return Sample(
        0, text, outputs, length=10, answer_prefix=" Svar:", parts=in_order(parts), **more
    )


@pytest.mark.parametrize("variant", ["niah_single_1", "niah_multikey_2", "niah_multiquery"])
def test_the_needles_are_marked_with_their_values(variant):
    record = Dataset(variant, 2000, "da", "words")[3]
    reader = read(show.sample(record))
    assert sorted(reader.values) == sorted(record.outputs)
    asked = [mark for mark in reader.marks if any(value in mark for value in record.outputs)]
    assert len(asked) == len(record.outputs)
    for mark in asked:
        assert mark.count(" ") < 20, "the sentence alone, not all of the text"
        assert mark in record.input
    assert (len(reader.marks) > len(asked)) == (variant == "niah_multikey_2")
    assert record.answer_prefix.strip() in reader.text


def test_a_long_sample_is_shortened_around_what_matters():
    text = "Ord og ord. " * 3000 + "Tallet for a-b er: 12. " + "Ord og ord. " * 3000 + "Hvad?"
    record = sample(text, ["12"], ["Tallet for a-b er: 12."])
    reader = read(show.sample(record, context=300))
    assert len(reader.text) < 2000
    assert reader.marks == ["Tallet for a-b er: 12."]
    assert reader.text.startswith("Ord og ord.")
    assert "Hvad? Svar:" in reader.text
    numbers = re.findall(r"… ([\d,]+) char", reader.text)
    hidden = [int(number.replace(",", "")) for number in numbers]
    shown = reader.text.split("Reference:")[0]
    markers = sum(len(found) for found in re.findall(r" \[… [\d,]+ characters …\] ", shown))
    assert sum(hidden) + len(shown) - markers == len(text + " Svar:")


def wrong(pred, outputs=("12",), task="niah_single_2", depths=(0,)):
    about = {"model": "m", "language": "da", "task": task, "length": 4096}
    record = Prediction(7, "", list(outputs), pred, {"depths": list(depths)})
    return analysis.error_examples(analysis.scores([(about, record)]))


@pytest.mark.parametrize("pred", [EVIL, "</div></div><h1>x", "a\nb < c & d", "&amp;"])
def test_an_answer_is_text(pred):
    assert pred in read(show.answers(wrong(pred))).text


# Deceptive characters, and their replacements.
UNSEEN = {"\x1b[31m": "␛[31m", "\x7f": "␡", "\x9b": r"\x9b", "\u202e": r"\u202e"}


def everywhere(text):
    """All that shows an answer: the same text as a prompt, an answer, a reference and a name."""
    yield show.sample(sample(f"Før. Tallet er: 1{text}2. Efter.", [f"1{text}2"], ["Tallet er:"]))
    yield show.answers(wrong(f"nej {text}", [f"1{text}2"], task=f"a{text}b"))
    yield show.sentence(text)


@pytest.mark.parametrize("text", UNSEEN)
def test_what_cannot_be_seen_is_shown_as_a_symbol(text):
    for shown in everywhere(text):
        markup, plain = shown._repr_html_(), repr(shown)
        assert UNSEEN[text] in Reader(markup).text
        assert UNSEEN[text] in plain
        for said in (markup, plain):
            assert text not in said
            assert said.encode("utf-8"), "a notebook is UTF-8"
    named = pd.Series([f"a{text}b", "c"], dtype=object)
    styled = show.table(pd.DataFrame({"model": named, "n": [1, 2]})).to_html()
    assert text not in styled
    assert f"a{UNSEEN[text]}b" in styled


def rows(**changed):
    about = {"model": "m", "language": "da", "task": "niah_single_2", "length": 32768, **changed}
    records = [(about, Prediction(i, "", ["12"], "12" if i else "x")) for i in range(1500)]
    return analysis.accuracy(analysis.scores(records))


def test_a_table_shows_percentages_intervals_and_n():
    markup = show.table(rows()).to_html()
    for part in ("99.9%", "99.6 – 100.0", "95% interval", "1,500", "32,768"):
        assert part in markup
    # What is the same in all rows moves to the caption.
    caption = "model: m; language: da; measure: all_match; category: retrieval"
    assert f"<caption>{caption}</caption>" in markup
    heads = re.findall(r"<th[^>]*>([^<]*)<", markup)
    assert "all match" in heads, "the mean has the name of its measure"
    assert not {"mean", "low"} & {*heads}


@pytest.mark.parametrize("several", [False, True])
def test_markup_in_a_table_is_text(several):
    """In a column as in the caption."""
    table = rows(model=EVIL)
    markup = show.table(pd.concat([table, rows(model="other")]) if several else table).to_html()
    assert "<script" not in markup
    assert "<img" not in markup
    assert "alert(1)" in markup


# --- A run --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))


def test_a_run_shows_its_questions_languages_and_decoding():
    study = [{"num_needle_k": 2}, {"num_needle_k": 4}]
    run = Run("niah_single_2", length=2048, num_lengths=2, num_samples=700, family="niah",
              study=study, study_length=[512, 1024], study_samples=3)  # fmt: skip
    assert show.run(run).text.splitlines() == [
        "lille: niah_single_2. Questions: 1,400, at 1K, 2K tokens. Language: Dansk.",
        "Greedy decoding, seed 42, with a chat template."
        " Study of 2 settings: Questions: 12, at 512, 1K tokens.",
    ]
    assert "_model" not in run.loaded_engine.__dict__
