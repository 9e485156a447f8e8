"""Counts and positions agree with what the tokenizers themselves say, and budgets are kept.

Every check here asks the tokenizer of `transformers`, not `rulerlib.tokens`.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import CHAT_TEMPLATE, TOKENIZERS, make_tokenizer, reference, shared
from rulerlib import languages, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

VARIANTS = [name for name, task in TASKS.items() if task.family == "niah"]


def plain(tokenizer: tokens.Tokenizer, text: str) -> list[tuple[int, int]]:
    """The characters of each token, without special tokens."""
    if isinstance(tokenizer, tokens.FastTokenizer):
        return reference(tokenizer)(
            text, add_special_tokens=False, return_offsets_mapping=True
        ).offset_mapping
    return [match.span() for match in re.finditer(r" ?\w+| ?[^\w\s]|\s", text)]


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_words_cover_every_character_once(text):
    spans = tokens.Words().spans([text])[0]
    assert "".join(text[start:end] for start, end in spans) == text
    assert tokens.Words().count(text) == len(spans)


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "words"])
def test_tokens_are_those_of_transformers(kind):
    real, book = make_tokenizer(kind), shared("danish_book.txt").read_text(encoding="utf-8")
    texts = [book[at : at + 1000] for at in range(0, 20_000, 1000)]
    texts += ["", " ", "<s> a </s><|user|> b", "æ😀漢字 \t\n"]
    backend = reference(real)
    expected = [backend(text, add_special_tokens=False).input_ids for text in texts]
    assert [real.encode(text, special=False) for text in texts] == expected
    assert real.counts(texts) == [len(ids) for ids in expected]
    assert [real.count(text) for text in texts] == [len(ids) for ids in expected]
    fed = [backend(text).input_ids for text in texts]
    assert [real.encode(text, special=True) for text in texts] == fed
    assert {len(ids) - len(bare) for ids, bare in zip(fed, expected, strict=True)} == {real.special}


def test_fingerprints_decide_on_the_splitting_and_on_the_chat_template(bytelevel):
    kinds = ("words", "bytelevel", "metaspace")
    fingerprints = [make_tokenizer(kind).fingerprint for kind in kinds]
    assert len(set(fingerprints)) == 3
    assert fingerprints == [make_tokenizer(kind).fingerprint for kind in kinds]
    other = tokens.FastTokenizer(bytelevel.backend, "x", chat_template=CHAT_TEMPLATE + "\n")
    same = tokens.FastTokenizer(bytelevel.backend, "x", chat_template=CHAT_TEMPLATE)
    assert other.fingerprint != same.fingerprint == bytelevel.fingerprint


def lengths(
    tokenizer: tokens.Tokenizer, sample: Sample, chat: bool, place: str = "assistant"
) -> tuple[int, int]:
    """Tokens of the prompt as plain text and as it is fed, by `transformers` alone."""
    text = sample.input + sample.answer_prefix
    count = len(plain(tokenizer, text))
    if not isinstance(tokenizer, tokens.FastTokenizer):
        return count, count
    backend = reference(tokenizer)
    if not chat:
        return count, len(backend(text).input_ids)
    turns = [
        {"role": "user", "content": sample.input},
        {"role": "assistant", "content": sample.answer_prefix.lstrip()},
    ]
    if place != "assistant":
        turns = [{"role": "user", "content": text}]
    assert place != "none" or sample.answer_prefix == ""
    continued = place == "assistant"
    fed = backend.apply_chat_template(
        turns, tokenize=True, return_dict=True,
        continue_final_message=continued, add_generation_prompt=not continued,
    )  # fmt: skip
    return count, len(fed["input_ids"])


def check_budget(data: Dataset, sample: Sample) -> None:
    """Both lengths are exact, the budget is kept, and it is used."""
    tokenizer, generate = data.tokenizer, data.tokens_to_generate
    count, fed = lengths(tokenizer, sample, data.frame.chat, data.format.answer_prefix)
    assert sample.length == count + generate
    assert sample.length_w_model_temp == fed + generate
    assert sample.length <= data.length
    assert sample.length_w_model_temp <= data.length
    [draft], _ = data.maker.plan(sample.index, data._rng(sample.index), 1)
    needles = ["x." + needle.text for needle in draft.needles]
    slack = data.maker.filler.longest + max(tokenizer.counts(needles))
    assert data.length - max(sample.length, sample.length_w_model_temp) < slack


def check_positions(tokenizer: tokens.Tokenizer, sample: Sample) -> None:
    """The recorded positions are those of a tokenization of the whole input."""
    ends = [end for _, end in plain(tokenizer, sample.input)]

    def holder(character: int) -> int:
        return bisect.bisect_right(ends, character)

    assert sample.token_position_answer == holder(sample.input.index(sample.outputs[0]))
    needle = re.compile(r"(?:Et af de særlige|One of the special)[^\n.]*?: (\S+)\.")
    starts = {found[1]: holder(found.start()) for found in needle.finditer(sample.input)}
    gold = [starts[value] for value in sample.outputs]
    assert sample.token_positions[: len(gold)] == gold
    assert set(sample.token_positions) <= set(starts.values())


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_budgets_are_exact_and_never_exceeded(kind):
    tokenizer = make_tokenizer(kind)
    chats = [None] if kind == "words" else [None, True, False]

    @settings(max_examples=5)
    @given(
        task=st.sampled_from(VARIANTS),
        length=st.integers(1500, 2500 if kind == "nasty" else 5000),
        language=st.sampled_from(["da", "en"]),
        seed=st.integers(0, 10**6),
        chat=st.sampled_from(chats),
        place=st.sampled_from(["assistant", "user", "none"]),
        index=st.integers(0, 400),
    )
    def hold(task, length, language, seed, chat, place, index):
        data = Dataset(
            task, length, language, tokenizer, num_samples=500, seed=seed,
            format=PromptFormat(chat=chat, answer_prefix=place),
        )  # fmt: skip
        for number in (index, index + 57):
            sample = data[number]
            check_budget(data, sample)
            check_positions(tokenizer, sample)

    hold()


@pytest.mark.parametrize("chat", [True, False])
def test_control_tokens_in_texts_are_refused(bytelevel, chat):
    form = PromptFormat(chat)
    said = "The texts contain '</s>', a control token of 'bytelevel'"
    with pytest.raises(DataError, match=said):
        Dataset("niah_single_2", 1500, "da", bytelevel, texts=["En </s> sætning."], format=form)
    pack = languages.load("da")
    marked = dataclasses.replace(pack, noise=f"{pack.noise} <|end|>")
    with pytest.raises(DataError, match=r"contains '<\|end\|>', a control token"):
        Dataset("niah_single_1", 1500, marked, bytelevel, format=form)[0]
    with pytest.raises(ParameterError, match=r"system_prompt is .*a text without '<s>'"):
        PromptFormat(chat, system_prompt="Svar <s> kort.").frame(bytelevel)


def test_a_model_without_a_sound_tokenizer_file_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"must be a model with a tokenizer\.json"):
        tokens.load(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model":', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"whose tokenizer.json can be read \(EOF while"):
        tokens.load(str(tmp_path))


def write(folder, backend, config, files=()):
    """A model's folder with these files."""
    backend.save(str(folder / "tokenizer.json"))
    for name, content in {"tokenizer_config.json": config, **dict(files)}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")


NAMED = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
ADDED = {"lstrip": False, "rstrip": True, "normalized": False, "single_word": False}
OTHER = "{{ bos_token }}{{ messages[0]['content'] }}"
# The other entries of a configuration (None: no file), and other files in its folder.
FOLDERS = {
    "tokens with flags": {
        "eos_token": {"__type": "AddedToken", "content": "<|end|>", **ADDED},
    },
    "begin and end": {"add_bos_token": False, "add_eos_token": True},
    "a template beside it": {"chat_template": OTHER, "chat_template.jinja": CHAT_TEMPLATE},
    "named templates": {"chat_template": [
        {"name": "tool_use", "template": OTHER}, {"name": "default", "template": CHAT_TEMPLATE},
    ]},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["bytelevel", "metaspace"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_read_as_transformers_reads_it(kind, folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    said = {name: value for name, value in (NAMED | FOLDERS[folder]).items() if value is not None}
    files = {name: said.pop(name) for name in [*said] if "." in name}
    backend = make_tokenizer(kind).backend
    write(tmp_path, backend, {"tokenizer_class": "PreTrainedTokenizerFast", **said}, files)
    expected = transformers.AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = tokens.load(str(tmp_path))
    text = "Rødgrød med fløde.<|end|> \n<s> Nå! image_token</s>"
    for special in (True, False):
        ids = expected(text, add_special_tokens=special).input_ids
        assert tokenizer.encode(text, special) == ids
    added = expected.added_tokens_decoder
    kept = [each for each in ids if each not in added or added[each].content == "<s>"]
    assert tokenizer.decode(ids, ["<s>"]) == expected.decode(kept)
    for role in ("bos_token", "eos_token"):
        assert tokenizer.special_tokens[role] == expected.special_tokens_map[role]
    assert tokenizer.eos_id == expected.eos_token_id
    assert (tokenizer.chat_template is None) == (expected.chat_template is None)
    if tokenizer.chat_template is not None:
        turns = [{"role": "user", "content": "Hvad?"}, {"role": "assistant", "content": "Det."}]
        for ask in (True, False):
            assert tokenizer.render(
                turns, add_generation_prompt=ask
            ) == expected.apply_chat_template(turns, tokenize=False, add_generation_prompt=ask)


def test_a_template_that_does_not_render_is_one_sentence(bytelevel):
    pytest.importorskip("jinja2")
    for template, reason in (
        ("{{ raise_exception('No tools.') }}", "No tools."),
        ("{{ messages[1].content + 1 }}", "list object has no element 1"),
    ):
        talker = tokens.FastTokenizer(bytelevel.backend, "talker", chat_template=template)
        with pytest.raises(ParameterError) as caught:
            talker.render([{"role": "user", "content": "Hej"}])
        assert str(caught.value) == (
            "chat is True, but must be false, because the chat template of 'talker' does not"
            f" render ({reason})."
        )
