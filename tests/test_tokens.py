"""Counts and positions agree with what the tokenizers themselves say, and budgets are kept.

Every check here asks the ``transformers`` tokenizer, not `rulerlib.tokens`.
"""

from __future__ import annotations

import bisect
import re
import warnings

import pytest
from helpers_tasks import smallest_of
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TOKENIZERS, make_tokenizer, shared
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Sample
from rulerlib.tasks import TASKS

VARIANTS = [name for name, task in TASKS.items() if task.family == "niah"]


# --- The tokenizer as such ------------------------------------------------------------------


def plain(tokenizer: tokens.Tokenizer, text: str) -> list[tuple[int, int]]:
    """The characters of each token, without special tokens."""
    if isinstance(tokenizer, tokens.HuggingFace):
        return tokenizer.backend(
            text, add_special_tokens=False, return_offsets_mapping=True
        ).offset_mapping
    return [match.span() for match in re.finditer(r" ?\w+| ?[^\w\s]|\s", text)]


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_words_cover_every_character_once(text):
    spans = tokens.Words().spans([text])[0]
    assert "".join(text[start:end] for start, end in spans) == text
    assert tokens.Words().count(text) == len(spans)


def test_counts_are_those_of_the_backend(real, danish_book):
    book = danish_book.read_text(encoding="utf-8")
    texts = [book[at : at + 1000] for at in range(0, 20_000, 1000)]
    expected = [len(real.backend(text, add_special_tokens=False).input_ids) for text in texts]
    assert real.counts(texts) == expected
    assert [real.count(text) for text in texts] == expected


def test_added_is_the_difference_of_two_counts(tokenizer):
    before, after = "Himlen er blå.", " Solen er gul."
    whole = len(plain(tokenizer, before + after))
    assert tokenizer.added(after, after=before) == whole - len(plain(tokenizer, before))


def test_token_at_finds_the_token_of_a_character(tokenizer):
    text = "Æblet på bordet er rødt.\nHvad er 4711?"
    spans = plain(tokenizer, text)
    for character in range(len(text)):
        index = tokenizer.token_at(text, character)
        start, end = spans[index]
        assert start <= character < end or text[character].isspace()
        assert all(end <= character for _, end in spans[:index])


def test_truncation_and_padding_of_a_tokenizer_file_do_not_change_counts(bytelevel):
    rust = bytelevel.backend.backend_tokenizer
    text = "Græsset er grønt. " * 20
    expected = bytelevel.count(text)
    try:
        rust.enable_truncation(8)
        rust.enable_padding(length=2000)
        assert bytelevel.count(text) == expected
        assert bytelevel.counts([text, text]) == [expected, expected]
    finally:
        rust.no_truncation()
        rust.no_padding()


def test_fingerprints_tell_tokenizers_apart():
    made = [make_tokenizer(kind).fingerprint for kind in ("words", "bytelevel", "metaspace")]
    assert len(set(made)) == 3
    assert made == [make_tokenizer(k).fingerprint for k in ("words", "bytelevel", "metaspace")]


# --- The frame around a prompt --------------------------------------------------------------


def test_a_chat_template_is_used_where_there_is_one(bytelevel, words):
    assert bytelevel.frame().chat
    assert bytelevel.frame(True) == bytelevel.frame()
    assert not bytelevel.frame(False).chat
    assert bytelevel.frame(False).special == 1
    assert words.frame() == tokens.Frame()


def test_a_chat_prompt_is_what_the_template_makes(bytelevel):
    prompt = bytelevel.frame(True).prompt("Hvad er 2 + 2?", " Svaret er")
    turns = [
        {"role": "user", "content": "Hvad er 2 + 2?"},
        {"role": "assistant", "content": "Svaret er"},
    ]
    expected = bytelevel.backend.apply_chat_template(
        turns, tokenize=False, continue_final_message=True
    )
    assert prompt == expected


def test_a_template_that_changes_the_text_is_refused(bytelevel):
    template = bytelevel.backend.chat_template
    try:
        bytelevel.backend.chat_template = "{{ messages[0]['content'] }}{{ messages[0]['content'] }}"
        with pytest.raises(ParameterError, match="chat is True, but must be false, because the"):
            bytelevel.frame(True)
    finally:
        bytelevel.backend.chat_template = template


def test_chat_without_a_template_is_refused(words):
    message = "chat is True, but must be false, because the tokenizer 'words' has no chat template"
    with pytest.raises(ParameterError, match=message):
        Dataset("niah_single_1", 1000, tokenizer=words, chat=True)


USER = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n"
)
TEMPLATES = {
    # As Qwen3 does it: an empty thought where thinking is off.
    "switch": USER + (
        "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
        "{% endif %}{% endif %}"
    ),
    # As DeepSeek-V3.1 does it: thinking is opened where it is on.
    "other switch": USER + (
        "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}{% endif %}"
    ),
    # As DeepSeek-R1 does it: thinking is opened, always.
    "always": USER + "<think>\n{% endif %}",
}  # fmt: skip


@pytest.fixture
def thinker(bytelevel, monkeypatch):
    """The tokenizer with one of these templates."""

    def with_template(name):
        monkeypatch.setattr(bytelevel.backend, "chat_template", TEMPLATES[name])
        return bytelevel

    return with_template


@pytest.mark.parametrize("name", ["bytelevel", "lille"])
@pytest.mark.parametrize("place", tokens.PLACES)
def test_the_answer_prefix_stands_where_it_is_said(name, place):
    tokenizer = tokens.load("lille") if name == "lille" else make_tokenizer(name)
    question = "Hvad er 2 + 2?"
    turns, options = {
        "assistant": (
            [("user", question), ("assistant", "Svaret er")], {"continue_final_message": True},
        ),
        "user": ([("user", question + " Svaret er")], {"add_generation_prompt": True}),
        "none": ([("user", question)], {"add_generation_prompt": True}),
    }[place]  # fmt: skip
    messages = [{"role": role, "content": content} for role, content in turns]
    frame = tokenizer.frame(True, place)
    assert frame.prompt(question, " Svaret er") == tokenizer.backend.apply_chat_template(
        messages, tokenize=False, **options
    )
    assert list(frame.messages(question, " Svaret er")) == messages
    plain = tokenizer.frame(False, place)
    assert plain.prompt("a?", " b") == ("a?" if place == "none" else "a? b")
    assert plain.messages("a?", " b") is None


@pytest.mark.parametrize("template", ["switch", "other switch"])
def test_thinking_is_switched_as_the_template_allows(thinker, template):
    tokenizer = thinker(template)
    name = "enable_thinking" if template == "switch" else "thinking"
    for thinking in (True, False):
        frame = tokenizer.frame(None, "user", thinking)
        turn = [{"role": "user", "content": "Hvad? Svar:"}]
        assert frame.template == {name: thinking}
        assert frame.prompt("Hvad?", " Svar:") == tokenizer.backend.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True, **{name: thinking}
        )
    assert tokenizer.frame(None, "user").template == {}
    assert tokenizer.frame(None, "user", True).thinks == (template == "other switch")
    assert not tokenizer.frame(None, "assistant", False).thinks


def test_thinking_that_cannot_be_switched_off_is_said(thinker, words):
    tokenizer = thinker("always")
    with pytest.raises(ParameterError, match=r"thinking is False, .*cannot switch it off"):
        tokenizer.frame(None, "user", False)
    assert tokenizer.frame(None, "user").thinks
    assert tokenizer.frame(None, "user", True).template == {}
    with pytest.raises(ParameterError, match=r"answer_prefix is 'assistant', .*thinks first"):
        tokenizer.frame()
    for plain in (tokenizer.frame, words.frame):
        with pytest.raises(ParameterError, match=r"thinking is True.*no chat template"):
            plain(False, "user", True)
    with pytest.raises(ParameterError, match=r"answer_prefix is 'usr'.*did you mean 'user'"):
        words.frame(None, "usr")


@pytest.mark.parametrize(
    ("thinking", "count", "place", "chat", "said"),
    [
        (True, 0, "user", True, "thinking_tokens is 0, but must be at least 1"),
        (False, 9, "user", True, "thinking_tokens is 9, but must be 0, because thinking is False"),
        (None, 9, "user", False, "thinking_tokens is 9, but must be 0, because no chat template"),
        (None, 9, "assistant", True, "answer_prefix is 'assistant', but must be 'user' or 'none'"),
        (None, -1, "user", True, "thinking_tokens is -1"),
        (None, "9", "user", True, "thinking_tokens is '9'"),
    ],
)
def test_room_for_thinking_goes_with_thinking(thinking, count, place, chat, said):
    frame = tokens.Frame(chat=chat, answer_prefix=place)
    with pytest.raises(ParameterError) as error:
        tokens.check_thinking("m", frame, thinking, count)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("opened", "text", "expected"),
    [
        (False, "It is 8.", ("", "It is 8.", False)),
        (False, " 8 < 9.", ("", " 8 < 9.", False)),
        (False, "<think>7? 8!</think>\n\n It is 8.", ("7? 8!", "It is 8.", False)),
        (False, "<think>\n\n</think>\n\n8", ("", "8", False)),
        (False, "<think>7? 8", ("7? 8", "", True)),
        (False, "<think>", ("", "", True)),
        (False, "7? 8!</think>8", ("7? 8!", "8", False)),
        (False, "<think>a</think>8<think>b</think> 9", ("ab", "8 9", False)),
        (False, "<think>a</think>8<think>b", ("ab", "8", True)),
        (True, "7? 8!</think> 8", ("7? 8!", "8", False)),
        (True, "<think>7? 8!</think> 8", ("7? 8!", "8", False)),
        (True, "7? 8", ("7? 8", "", True)),
        (True, "", ("", "", True)),
        (False, "", ("", "", False)),
    ],
)
@pytest.mark.parametrize("tags", [tokens.TAGS, ("[THINK]", "[/THINK]")])
def test_thinking_is_told_from_the_answer(opened, text, expected, tags):
    def dressed(words):
        return words.replace("<think>", tags[0]).replace("</think>", tags[1])

    frame = tokens.Frame(between=tags[0] + "\n" if opened else "", chat=True, tags=tags)
    assert frame.thinks == opened
    assert frame.split(dressed(text)) == expected


def test_plain_text_has_no_thinking():
    assert tokens.Frame().split("a <think>b") == ("", "a <think>b", False)


@pytest.mark.parametrize("tags", ["<think>", ["<think>"], ["a", "a"], ["a", ""], ["a", 1], None])
def test_tags_are_two_texts(tags):
    with pytest.raises(ParameterError, match="thinking_tags is"):
        tokens.check_tags(tags)


def test_tags_that_are_special_tokens_stay(bytelevel):
    ids = bytelevel.backend.convert_tokens_to_ids(["<s>", "<|user|>", "<|assistant|>"])
    assert bytelevel.decode(ids) == bytelevel.backend.decode(ids, skip_special_tokens=True)
    kept = bytelevel.decode(ids, ["<|user|>go"])
    assert "<|user|>" in kept or "<|user|>" not in bytelevel.backend.decode(ids)


# --- Budgets --------------------------------------------------------------------------------


def lengths(
    tokenizer: tokens.Tokenizer, sample: Sample, chat: bool, place: str = "assistant"
) -> tuple[int, int]:
    """Tokens of the prompt as plain text and as it is fed, by the backend alone."""
    text = sample.input + sample.answer_prefix
    count = len(plain(tokenizer, text))
    if not isinstance(tokenizer, tokens.HuggingFace):
        return count, count
    if not chat:
        return count, len(tokenizer.backend(text).input_ids)
    turns = [
        {"role": "user", "content": sample.input},
        {"role": "assistant", "content": sample.answer_prefix.lstrip()},
    ]
    if place != "assistant":
        turns = [{"role": "user", "content": text}]
    assert place != "none" or sample.answer_prefix == ""
    continued = place == "assistant"
    fed = tokenizer.backend.apply_chat_template(
        turns, tokenize=True, return_dict=True,
        continue_final_message=continued, add_generation_prompt=not continued,
    )  # fmt: skip
    return count, len(fed["input_ids"])


def check_budget(data: Dataset, sample: Sample) -> None:
    """Both lengths are exact, the budget is kept, and it is used."""
    tokenizer, generate = data.tokenizer, data.tokens_to_generate
    count, fed = lengths(tokenizer, sample, data.frame.chat, data.answer_prefix)
    assert sample.length == count + generate
    assert sample.length_w_model_temp == fed + generate
    assert sample.length <= data.length
    assert sample.length_w_model_temp <= data.length
    family = data.family
    needles = [n.text for n in family.draft(sample.index, data._rng(sample.index)).needles]
    slack = family.haystack.longest + max(tokenizer.counts(["x." + text for text in needles]))
    assert data.length - max(sample.length, sample.length_w_model_temp) < slack


def check_positions(tokenizer: tokens.Tokenizer, sample: Sample) -> None:
    """The recorded positions are those of a tokenization of the whole input."""
    ends = [end for _, end in plain(tokenizer, sample.input)]

    def holder(character: int) -> int:
        return bisect.bisect_right(ends, character)

    answer = sample.input.index(sample.outputs[0])
    assert sample.token_position_answer == holder(answer)
    needle = re.compile(r"(?:Et af de særlige|One of the special)[^\n.]*?: (\S+)\.")
    starts = {found[1]: holder(found.start()) for found in needle.finditer(sample.input)}
    gold = [starts[value] for value in sample.outputs]
    assert sample.token_positions[: len(gold)] == gold
    assert set(sample.token_positions) <= set(starts.values())


def dataset(*args, **options) -> Dataset:
    """A dataset, at the smallest length that works where the one asked for does not."""
    try:
        return Dataset(*args, **options)
    except ParameterError as error:
        name, _, *rest = args
        return Dataset(name, smallest_of(error), *rest, **options)


@pytest.mark.filterwarnings("ignore:The tokenizer 'nasty' merges")
@pytest.mark.parametrize("kind", ["bytelevel", "nasty", "lille"])
@pytest.mark.parametrize("place", ["user", "none"])
@pytest.mark.parametrize("task", ["niah_multiquery", "vt", "qa_1"])
def test_budgets_are_exact_wherever_the_answer_prefix_stands(kind, place, task):
    tokenizer = tokens.load("lille") if kind == "lille" else make_tokenizer(kind)
    for chat in (True, False):
        data = dataset(task, 900, "da", tokenizer, num_samples=3, chat=chat, answer_prefix=place)
        for sample in data:
            count, fed = lengths(tokenizer, sample, chat, place)
            generate = data.tokens_to_generate
            assert (sample.length, sample.length_w_model_temp) == (count + generate, fed + generate)
            assert max(sample.length, sample.length_w_model_temp) <= data.length
        assert data.metadata["answer_prefix"] == place


@pytest.mark.filterwarnings("ignore:The tokenizer 'nasty' merges")
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_budgets_are_exact_and_never_exceeded(kind):
    tokenizer = make_tokenizer(kind)
    chats = [None] if kind == "words" else [None, True, False]

    @settings(max_examples=8 if kind == "nasty" else 20)
    @given(
        task=st.sampled_from(VARIANTS),
        length=st.integers(600, 2500 if kind == "nasty" else 6000),
        language=st.sampled_from(["da", "en"]),
        seed=st.integers(0, 10**6),
        chat=st.sampled_from(chats),
        index=st.integers(0, 400),
    )
    def hold(task, length, language, seed, chat, index):
        data = dataset(task, length, language, tokenizer, num_samples=500, seed=seed, chat=chat)
        for number in (index, index + 57):
            sample = data[number]
            check_budget(data, sample)
            check_positions(tokenizer, sample)

    hold()


@pytest.mark.filterwarnings("ignore:The tokenizer 'nasty' merges")
def test_budgets_hold_over_real_prose(tokenizer, danish_book):
    """Old spelling, quotation marks, long sentences: text that no one here wrote."""
    for task in ("niah_single_2", "niah_multivalue"):
        data = Dataset(task, 3000, "da", tokenizer, texts=danish_book, num_samples=20)
        with warnings.catch_warnings():
            if tokenizer.name != "nasty":
                # The sums must be exact here; tokenizing every prompt would be a way around.
                warnings.simplefilter("error")
            for sample in (data[i] for i in range(2 if tokenizer.name == "nasty" else 10)):
                check_budget(data, sample)
                check_positions(tokenizer, sample)


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "nasty"])
@pytest.mark.parametrize("task", VARIANTS)
def test_usual_tokenizers_are_counted_by_addition(kind, task):
    data = Dataset(task, 2000, "da", make_tokenizer(kind), num_samples=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not data.family.exact


@pytest.mark.parametrize("task", ["niah_single_2", "niah_multiquery", "niah_multikey_3"])
def test_a_tokenizer_that_merges_across_seams_is_warned_about(nasty, task):
    data = Dataset(task, 1500, "da", nasty, num_samples=2)
    sentence = "'nasty' merges text across the seams of the haystack; every prompt is tokenized"
    with pytest.warns(UserWarning, match=sentence):
        samples = list(data)
    for sample in samples:
        check_budget(data, sample)
        check_positions(nasty, sample)


def test_a_token_that_holds_two_lines_of_noise():
    """The sum of the units' costs may be far off, even nothing at all for a whole line."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    noise = "Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen."
    rust = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>"],
        show_progress=False,
        initial_alphabet=list("abcdefghijklmnopqrstuvwxyzæøå 0123456789-"),
    )
    rust.train_from_iterator(["\n".join(["x." + noise, *[noise] * 8])] * 8, trainer)
    backend = transformers.PreTrainedTokenizerFast(tokenizer_object=rust, unk_token="<unk>")
    tokenizer = tokens.HuggingFace(backend, "lines")
    assert tokenizer.count("\n".join([noise] * 16)) < 16
    data = Dataset("niah_single_1", 480, "da", tokenizer, num_samples=2)
    with pytest.warns(UserWarning, match="merges text across the seams"):
        samples = list(data)
    for sample in samples:
        check_budget(data, sample)
        check_positions(tokenizer, sample)


@pytest.mark.parametrize(
    ("task", "knobs"),
    [(name, {}) for name in VARIANTS]
    + [
        ("niah_multikey_2", {"num_needle_k": 40}),
        ("niah_multikey_3", {"num_needle_k": 20, "num_needle_v": 2, "num_needle_q": 20}),
        ("niah_multiquery", {"type_needle_v": "uuids", "num_needle_v": 5}),
    ],
)
@pytest.mark.parametrize("kind", ["words", "bytelevel"])
def test_the_smallest_length_that_is_told_works(kind, task, knobs):
    tokenizer = make_tokenizer(kind)
    with pytest.raises(
        ParameterError,
        match=rf"length is 1, but must be at least \d+ for {task}:"
        r" \d+ tokens to generate and the fixed part of the prompt\.",
    ) as caught:
        Dataset(task, 1, "da", tokenizer, knobs=knobs)
    smallest = smallest_of(caught.value)
    data = Dataset(task, smallest, "da", tokenizer, num_samples=200, knobs=knobs)
    for sample in data:
        assert sample.length_w_model_temp <= smallest
    if not knobs:
        with pytest.raises(ParameterError, match=f"at least {smallest} for"):
            Dataset(task, smallest - 1, "da", tokenizer)


# --- Loading --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("lile", "'lille', a folder that exists, or a hub name such as 'owner/name'"),
        ("./no/such/folder", "'lille', a folder that exists, or a hub name"),
        ("", "'lille', a folder, or a hub name"),
        (7, "'lille', a folder, or a hub name"),
        (None, "'lille', a folder, or a hub name"),
    ],
)
def test_unknown_models_are_refused(name, allowed):
    with pytest.raises(ParameterError) as caught:
        tokens.load(name)
    assert str(caught.value).startswith(f"model is {name!r}, but must be {allowed}")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"must be a folder with config\.json and tokenizer"):
        tokens.load(str(tmp_path))


def test_a_damaged_tokenizer_file_is_one_sentence(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model":', encoding="utf-8")
    with pytest.raises(ParameterError, match="model is ") as caught:
        tokens.load(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_folder_with_a_tokenizer_is_loaded(bytelevel, tmp_path):
    bytelevel.backend.save_pretrained(tmp_path)
    loaded = tokens.load(str(tmp_path))
    text = "Rødgrød med fløde.\n"
    assert loaded.spans([text]) == bytelevel.spans([text])
    assert loaded.frame() == bytelevel.frame()


def test_the_limit_of_a_model_is_read_from_its_configuration(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert tokens.limit(str(tmp_path)) is None
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}', encoding="utf-8")
    assert tokens.limit(str(tmp_path)) == 2048
    nested = '{"text_config": {"max_position_embeddings": 4096}}'
    (tmp_path / "config.json").write_text(nested, encoding="utf-8")
    assert tokens.limit(str(tmp_path)) == 4096


def test_llama2_is_a_base_model_here():
    loaded = tokens.load(str(shared("tokenizers/llama2")))
    assert not loaded.frame().chat
    with pytest.raises(ParameterError, match="has no chat template"):
        loaded.frame(True)
