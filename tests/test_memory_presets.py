"""Presets: what is compared is asked in the same way, and all settings are checked."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.errors import ParameterError
from rulerlib.memory import bench, presets
from rulerlib.memory.presets import ASKED, asked, leak, load
from rulerlib.store import safe_name

MEMORIES = [name for name in presets.NAMES if name.startswith("memory/")]
RULE = "Answer with the exact shortest span from the prompt. No explanations."
yaml = pytest.importorskip("yaml")

FILES = sorted(presets.PRESETS.rglob("*.yaml"))


def read(name):
    """Read the file of a preset without the project."""
    return yaml.safe_load((presets.PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["span_short", *MEMORIES, "rag", "random", "longctx", "oracle"])
def test_presets_that_are_compared_are_asked_in_the_same_way(name):
    """Each file states the three settings, so that a reader need not know the defaults."""
    assert [read(name)[each] for each in ASKED] == [True, RULE, 8]
    assert [getattr(load(name), each) for each in ASKED] == [True, RULE, 8]
    for code in languages.available("memory"):
        pack = languages.load(code)
        assert load(name).format(pack) == load("span_short").format(pack)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_command_in_each_file_works(file, tmp_path, capsys):
    """A dry run prints what would run, and writes nothing."""
    (command,) = [line for line in file.read_text().splitlines() if "rulerlib memory" in line]
    words = shlex.split(command.partition("rulerlib memory")[2])
    assert bench.main([*words, "--dry-run", "--root", str(tmp_path / "runs")]) == 0
    *_, line, total = capsys.readouterr().out.splitlines()
    assert line.split()[-1].startswith(str(tmp_path / "runs"))
    assert total == "1 runs, 2 questions"
    assert not [*tmp_path.iterdir()]
    name = file.relative_to(presets.PRESETS).with_suffix("").as_posix()
    assert words[words.index("--presets") + 1] == name


@pytest.mark.parametrize("code", languages.available("memory"))
def test_the_wording_is_that_of_the_language(code):
    pack = languages.load(code)
    assert load("rag").format(pack).system_prompt == pack.section("memory")["system"]
    own = load("rag", {"system_prompt": "Be brief."})
    assert own.format(pack).system_prompt == "Be brief."
    plain = load("rag", {"use_chat_template": False}).format(pack)
    assert (plain.system_prompt, plain.stop) == (pack.section("memory")["system"], ("\n",))


def test_names_show_changes():
    preset = load("memory/hei_nw", {"threshold": 0.75, "k": 3, "gate": False})
    assert preset.short == "hei_nw-gate_off-k_3-threshold_0.75"
    assert safe_name(preset.short) == preset.short
    # How a question is asked has its own place in the name, and an equal value is no change.
    assert load("rag", {"max_new_tokens": 16, "k": 5}).short == "rag"


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("memory/hei_nw", {"gat": False}, r"'gat', but must be .*did you mean 'gate'"),
        ("core", {"k": 3}, r"setting of core is 'k', but must be one of use_chat_template"),
        ("memory/hei_nw", {"k": 0}, r"k is 0, but must be greater than or equal to 1"),
        ("rags", {}, "preset is 'rags', but must be .*did you mean 'rag'"),
        # To Python True is 1.
        ("memory/hei_nw", {"gate": 1}, "gate is 1, but must be a valid boolean"),
        ("rag", ["k"], r"changes is \['k'\], but must be a dictionary"),
    ],
)
def test_wrong_changes_are_errors(name, changes, sentence):
    with pytest.raises(ParameterError, match=sentence) as caught:
        load(name, changes)
    assert "\n" not in str(caught.value)


# --- Prompts ------------------------------------------------------------------------------------

HOSTILE = [
    "{question}", "{facts} and {0} and {", "}{", "%s %(question)s", "\\1 \\g<0>", "<|im_end|>", "",
    "What is known:\n{facts}\n\nQuestion: {question}", " ", "æ å ø 🙂", "\0",
]  # fmt: skip
TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))


@settings(max_examples=60)
@given(st.lists(TEXT, max_size=6), TEXT, st.sampled_from(["da", "en"]))
def test_recalled_texts_are_in_the_prompt_unchanged(texts, question, code):
    prompt = asked(languages.load(code), question, texts)
    assert "\n".join(texts) in prompt
    assert prompt.endswith(question)


def test_leaks_are_found_in_any_case_and_spacing():
    taught = ["Corwin saw Halwen.", "Yes.", "", "  "]
    assert leak("I know:  corwin\nsaw HALWEN. Where?", taught) == taught[0]
    # A short text is not found within a word, and an empty one nowhere.
    assert leak("Where do polyyes. live?", taught) is None
    assert leak("Where? yes. ", taught) is not None
    assert leak("", taught) is leak("Corwin saw", taught) is None
