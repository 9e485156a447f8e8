"""The page "Move the needle": the model inside in a reader's browser, on the page as it is built.

The page is read in Chromium, which can reach nothing but the site that it stands in.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import unicodedata

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
playwright = pytest.importorskip("playwright.sync_api")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from helpers_book import PATIENCE, needs_scripts, opened  # noqa: E402
from helpers_needle import PAGE, Reader  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from benchmarks.browser import (  # noqa: E402
    Asked,
    answer_of,
    ask,
    ask_worker,
    asked,
    bare_site,
    on_the_page,
    prompt_of,
    served,
    settings,
)
from book import browser as browsers  # noqa: E402
from book.needle_tasks import DRAWS, TASKS  # noqa: E402
from conftest import tries  # noqa: E402
from rulerlib import languages, models, texts  # noqa: E402
from rulerlib.errors import DataError, ParameterError  # noqa: E402
from rulerlib.metrics import matches  # noqa: E402
from rulerlib.playground import Playground, Setting  # noqa: E402
from rulerlib.playground.page import LABELS  # noqa: E402
from rulerlib.playground.prompt import ending, verdict  # noqa: E402
from rulerlib.playground.setting import TEXTS  # noqa: E402

expect = playwright.expect

MOST = 25_000_000


@pytest.fixture(scope="module")
def play():
    return Playground(models.load("lille", dtype="float32"), length=browsers.LENGTHS["most"])


@pytest.fixture
def reader(browser, address):
    reader = Reader(browser, address)
    yield reader
    reader.close()


def place_of(reader):
    """How many characters stand before the needle."""
    mark = reader.prompt.locator("mark.needle").inner_text()
    return reader.prompt.inner_text().index(mark)


def test_the_needle_is_moved_by_keyboard_and_found_at_all_depths(reader):
    assert not [url for url in reader.fetched if "safetensors" in url or "wasm" in url]
    expect(reader.answer).to_have_text(LABELS["not asked"])
    reader.depth.focus()
    reader.page.keyboard.press("Home")
    expect(reader.depth).to_have_attribute("aria-valuetext", "0 %")
    expect(reader.prompt).to_contain_text(re.compile(r"bagefter\.\s*Et af de særlige magiske tal"))
    first = place_of(reader)
    reader.page.keyboard.press("End")
    expect(reader.prompt).to_contain_text(re.compile(r"er: \d{7}\.\s*Hvad er det særlige"))
    assert place_of(reader) > first
    reader.page.keyboard.press("ArrowLeft")
    expect(reader.depth).to_have_attribute("aria-valuetext", "99 %")

    size = (browsers.LILLE / "model.safetensors").stat().st_size
    assert f"{size / 1e6:.1f} MB" in reader.button("Ask the model").inner_text()
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right. (at depth 99 %, 1,000 tokens")
    value = reader.prompt.locator("mark .value").inner_text()
    expect(reader.answer.locator(".said")).to_contain_text(value)
    assert sum("model.safetensors" in url for url in reader.fetched) == 1
    assert reader.cells() == {"1,000": ["not asked"] * 9 + ["1 of 1"]}

    reader.press("Try all depths")
    expect(reader.answer).to_contain_text(re.compile(r"Found \d+ of 10\."))
    # Depth 99 % is in the last tenth, too.
    (cells,) = reader.cells().values()
    assert [cell.split(" of ")[1] for cell in cells] == ["1"] * 9 + ["2"]
    right = sum(int(cell.split(" of ")[0]) for cell in cells) - 1
    assert f"Found {right} of 10." in reader.answer.inner_text()
    assert not reader.wrong


def test_the_heatmap_grows_over_lengths_and_can_be_stopped(reader):
    reader.page.get_by_label(LABELS["language"]).select_option("en")
    reader.page.get_by_label("Task").select_option("keys")
    reader.length.focus()
    reader.page.keyboard.press("Home")
    expect(reader.prompt.locator("mark.distractor")).to_have_count(3)
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("at depth 50 %, 500 tokens")
    reader.press("All depths and lengths")
    row = reader.page.locator("[data-part=cells] tr").filter(has_text="1,000")
    expect(row.locator("td .unseen").get_by_text("1 of 1").first).to_be_attached()
    reader.press("Stop")
    expect(reader.answer).to_contain_text(re.compile(r"Found \d+ of \d+\."))
    cells = reader.cells()
    assert all(re.fullmatch(r"\d of \d", cell) for cell in cells["500"])
    assert "not asked" in cells[list(cells)[-1]]
    # Another kind of prompt begins another heatmap.
    reader.page.get_by_label("Task").select_option("one")
    expect(reader.page.locator("[data-part=found]")).to_be_hidden()
    assert not reader.wrong


def test_what_the_reader_writes_is_text_and_mistakes_are_said(reader):
    reader.page.get_by_text(LABELS["own"]).click()
    needle = reader.page.get_by_role("textbox", name=LABELS["needle"])
    needle.fill("<img src=x onerror=alert(1)> for {key}: {value}.")
    expect(reader.prompt.locator("mark.needle")).to_contain_text("<img src=x onerror=alert(1)> for")
    assert reader.prompt.locator("img").count() == 0
    for text, wanted in [
        ("<b>nothing</b> to find", "<b>nothing</b> to find"),
        ("The code is {4711}.", "because your needle has no {key} to ask for"),
    ]:
        needle.fill(text)
        expect(reader.alert).to_contain_text(wanted)
        assert reader.alert.locator("b").count() == 0
        with pytest.raises(ParameterError) as said:
            Setting(needle=text)
        assert said.value.allowed in reader.alert.inner_text()
        expect(reader.button("Ask the model")).to_have_attribute("aria-disabled", "true")
    needle.fill("")
    expect(reader.alert).to_be_hidden()

    text = reader.page.get_by_role("textbox", name=LABELS["text"], exact=True)
    text.fill("Katten sover. Hunden løber. " * 3)
    expect(reader.prompt).to_contain_text("Katten sover. Hunden løber.")
    assert reader.page.get_by_label(LABELS["haystack"]).input_value() == "text"
    expect(reader.page.get_by_text("Your text is shorter")).to_be_visible()
    text.fill("Katten sover. Hunden løber. " * 300)
    expect(reader.page.get_by_text(re.compile(r"its first \d+ of 600 sentences"))).to_be_visible()
    text.fill("ord " * 20_000)
    expect(reader.alert).to_contain_text("at most 60,000 characters")
    text.fill(" ".join(["ordentlig"] * 60) + ".")
    reader.length.focus()
    reader.page.keyboard.press("Home")
    needle.fill("{key}: {value}. " + "Meget langt. " * 80)
    expect(reader.alert).to_contain_text(re.compile(r"“500”, but must be at least \d+"))
    assert not reader.wrong


def test_prompts_and_answers_are_those_of_rulerlib(browser, address, play):
    page, wrong = opened(browser, address, PAGE)
    # benchmarks/browser.py makes them at all lengths.
    questions = [*settings((500, 1000))[::3], *settings((browsers.LENGTHS["most"],))[::9]]
    assert len(questions) >= 80
    made = ask(page, address, "prompt", questions)["replies"]
    for question, prompt in zip(questions, made, strict=True):
        setting = question.setting
        sample, fed, room = prompt_of(play, question)
        assert prompt["fed"] == fed, question
        assert prompt["generate"] == room
        assert prompt["length"] == sample.length_w_model_temp
        assert sum(count for _, count in spent(prompt)) == setting.length
        assert sorted(prompt["outputs"]) == sorted(sample.outputs)
        if setting.haystack == "essay" and question.task != "chains":
            known = play.prompt_of(setting)
            assert spent(prompt) == known.budget(), question
            assert {*prompt["others"]} == {*known.others}
    assert {question.task for question in questions} == {*TASKS}
    # benchmarks/browser.py asks them all.
    by_length = sorted(questions, key=lambda one: -one.setting.length)
    few = [*{(one.task, one.setting.language): one for one in by_length}.values()]
    said = ask(page, address, "ask", few)["replies"]
    for question, reply in zip(few, said, strict=True):
        sample, _, room = prompt_of(play, question)
        assert reply["text"] == answer_of(play, sample, room), question
        found = matches.recall(reply["text"], sample.outputs)
        assert reply["found"] == round(found * len(sample.outputs))
    page.context.close()
    assert not wrong


def spent(prompt):
    """What the length is spent on, as `Prompt.budget` has it."""
    rows = [row for row in prompt["rows"] if row["tokens"]]
    return [(part, sum(row["tokens"] for row in run))
            for part, run in itertools.groupby(rows, lambda row: row["part"])]  # fmt: skip


WORDING = [
    "", " ", "x", "{value}", "{key} {value}", "{4711}", "{key}: {4711}", "{", "}", "{}", "{ }",
    "{key}", "{context}", "{context} {value}", "{type} {value} {key}", "{the_type} {key}: {value}",
    "The number of the {key} is {value}.", "The code is {4711}.", "The code is {47 11}, {47 11}.",
    "{constructor}", "{key} {constructor} {value}", "\\1 $& {value} {key}", "a\nb {key}\t{value}",
    "{æøå} {key}", "{value} {value} {key}", "æ\x07", "{query} {value}", "🐟 {value} {key}",
    "Ø" * 300, "e\u0301 {key} {value}", "\x85{value}\u3000{key}\x1c", "{{key}} {{value}}",
    "<b>{key}</b> {value}",
]  # fmt: skip
OWN_TEXTS = [
    "", "   ", "En kat.", "Katten sover. Hunden løber. " * 3, "He said “no.” Then\nhe left! " * 40,
    "ord " * 900, "Uden ende", "Kode 4711 står her. " * 30, "e\u0301\u00a0é\u2028E… (ja?) 7.  Nej",
    "\ufeffæ.", "a\x00b", "\x1f\x85Ja. Nej.", "En {key} {value} {context}. Ø",
]  # fmt: skip


# The tasks of which the reader may write something.
WORDED = [name for name, offer in TASKS.items() if offer.own]


def task_of(own):
    """The task that some fields of a setting make."""
    return next(
        name
        for name in WORDED
        if all(own.get(key, getattr(Setting(), key)) == getattr(Setting(**TASKS[name].setting), key)
               for key in ("num_needles", "num_values", "num_distractors"))
    )  # fmt: skip


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """Where the page's worker is served, without the pages of the site, which take longer."""
    needs_scripts()
    with served(bare_site(tmp_path_factory.mktemp("worker"))) as address:
        yield address


@pytest.mark.parametrize("whole", [None, pytest.param(400, marks=pytest.mark.long)])
def test_what_the_reader_writes_makes_the_prompts_and_mistakes_of_rulerlib(
    browser, worker, play, whole
):
    """The first cases, or of the whole as many of the others as are asked for."""
    first = 160
    numbers = range(first) if whole is None else range(first, first + tries(whole - first))
    # A value that stands in the text already, which chance does not bring about.
    given = [{"needle": "The code is {4711}.", "question": "Code?", "haystack": "text",
              "text": "Kode 4711 står her. " * 30}]  # fmt: skip
    for number in numbers:
        rng = random.Random(number)
        own = {name: rng.choice(WORDING) for name in ("needle", "question", "prefix")
               if rng.random() < 0.6}  # fmt: skip
        if rng.random() < 0.4:
            own.update(haystack="text", text=rng.choice(OWN_TEXTS))
        own.update(language=rng.choice(["da", "en"]), **TASKS[rng.choice(WORDED)].setting,
                   length=rng.choice([500, 700, 1100]), depth=rng.randint(0, 100),
                   index=number % DRAWS)  # fmt: skip
        given.append(own)
    expected = []
    for own in given:
        try:
            expected.append(prompt_of(play, Asked("", Setting(**own))))
        except (ParameterError, DataError) as error:
            expected.append(error)
    asked_ = [{**on_the_page(Asked(task_of(own), Setting())), **own} for own in given]
    page, wrong = opened(browser, worker, "index")
    replies = ask_worker(page, worker, "prompt", asked_)["replies"]
    for own, known, reply in zip(given, expected, replies, strict=True):
        if isinstance(known, ParameterError):
            said = "must be at least" if known.parameter == "length" else known.allowed
            assert said in reply["mistake"], own
            assert reply["mistake"].startswith(LABELS[known.parameter]), own
        elif isinstance(known, DataError):
            assert str(known).partition(": ")[2] in reply["mistake"], own
        else:
            assert reply.get("fed") == known[1], (own, reply.get("mistake"))
    if whole is None:
        assert sum(isinstance(known, tuple) for known in expected) > first / 4
        assert len({known.allowed for known in expected if isinstance(known, ParameterError)
                    and known.parameter != "length"}) == len(TEXTS["rules"])  # fmt: skip
    page.context.close()
    assert not wrong


# Calls a function of text.js with the rules of the page, once for each list of arguments. These go
# there and back as JSON: Playwright would take each value apart by itself.
CALL = """async ([address, name, rules, cases]) => {
    const { Texts } = await import(`${address}/_static/needle/text.js`);
    const texts = new Texts(rules);
    return JSON.stringify(JSON.parse(cases).map((given) => texts[name](...given)));
}"""


def test_texts_are_read_and_judged_as_in_python(browser, address):
    """The rules that stand in text.js as well, against those of rulerlib."""
    page, _ = opened(browser, address, PAGE)
    rules = browsers.text_rules()

    def called(name, cases):
        return json.loads(page.evaluate(CALL, [address, name, rules, json.dumps(cases)]))

    # Letters that this version of Unicode and the last few know alike.
    letters = [chr(code) for code in range(0x20000)
               if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]  # fmt: skip
    assert called("normal", [[letter] for letter in letters]) == [*map(matches.normalize, letters)]

    rng = random.Random(0)
    odd = ' \n\t\x00\x1f\x85\u00a0\u2028.…!?"”’»)] ßſİıΣςŁÆæ\u0301é\u0345ﬁ①Ⅳ½K🐟ab12'
    said = ["".join(rng.choices(odd, k=rng.randint(0, 40))) for _ in range(3000)]
    assert called("normal", [[text] for text in said]) == [*map(matches.normalize, said)]
    assert called("sentences", [[text] for text in said]) == [
        texts.sentences([text]) for text in said
    ]
    essays = [essay for code in languages.available() for essay in languages.load(code).essays]
    long = [*essays, *(" ".join(["ord"] * count) for count in (59, 60, 61, 120, 121))]
    assert called("sentences", [[text] for text in long]) == [
        texts.sentences([text]) for text in long
    ]

    values = ["1234567", "7654321", "stille-hylde", "Ærø-æble", "STRASSE", "½"]
    cases = []
    for _ in range(3000):
        outputs, others = (rng.sample(values, rng.randint(least, 3)) for least in (1, 0))
        shown = [rng.choice([str, str.upper, str.lower])(rng.choice(values)) for _ in range(2)]
        pieces = [*rng.sample(shown, rng.randint(0, 2)), *rng.choices(odd, k=rng.randint(0, 3))]
        cases.append(["".join(rng.sample(pieces, len(pieces))), outputs, others])
    verdicts = [verdict(*case) for case in cases]
    assert called("verdict", cases) == verdicts
    assert {*verdicts} == {"right", "all", "part", "distractor", "wrong"}
    ends = [[said, [*outputs, *others], rng.random() < 0.3] for said, outputs, others in cases]
    endings = [ending(*case) for case in ends]
    assert called("ending", ends) == endings
    assert {*endings} == {"finished", "cut off", "repeats"}
    page.context.close()


def test_a_context_that_was_read_before_changes_no_answer(browser, address):
    page, _ = opened(browser, address, PAGE)
    questions = [asked("one", length=500, depth=depth) for depth in (67, 100)]
    together = ask(page, address, "ask", [*questions, *questions])["replies"]
    assert [reply["kept"] > 100 for reply in together] == [False, True, True, True]
    for question, reply, again in zip(questions, together, together[2:], strict=False):
        (alone,) = ask(page, address, "ask", [question])["replies"]
        assert alone["ids"] == reply["ids"] == again["ids"]
    page.context.close()


def test_where_it_looked_is_the_mean_attention_that_transformers_computes(browser, worker, play):
    page = browser.new_page()
    page.goto(worker)
    questions = [
        asked("one", language="da", length=500, depth=33),
        # Letters of several bytes and of two units before what is looked at.
        asked(
            "one", language="en", length=600, depth=90, needle="The 🐟 of the {key} is Ø{value}."
        ),
    ]
    replies = ask(page, worker, "ask", questions)["replies"]
    page.close()
    words = play.model.tokenizer
    model = transformers.AutoModelForCausalLM.from_pretrained(
        browsers.LILLE, attn_implementation="eager", dtype=torch.float32
    )
    for question, reply in zip(questions, replies, strict=True):
        fed = prompt_of(play, question)[1]
        ids = words.encode(fed, special=False)
        # Where each token stands, by what the tokenizer of Python says of it.
        offsets = Tokenizer.from_file(str(browsers.LILLE / "tokenizer.json")).encode(
            fed, add_special_tokens=False
        )
        assert offsets.ids == ids
        sizes = (len(letter.encode("utf-16-le")) // 2 for letter in fed)
        units = list(itertools.accumulate(sizes, initial=0))
        assert reply["starts"] == [*(units[start] for start, _ in offsets.offsets), units[-1]]
        with torch.no_grad():
            out = model(torch.tensor([ids + reply["ids"]]), output_attentions=True)
        mean = torch.stack(out.attentions).mean((0, 2))[0]
        assert len(reply["took"]) == len(reply["pieces"]) == len(reply["ids"])
        assert "".join(reply["pieces"]) == reply["text"]
        for number, took in enumerate(reply["took"]):
            expected = mean[len(ids) - 1 + number, : len(ids)]
            own = torch.tensor([took[str(at)] for at in range(len(ids))])
            torch.testing.assert_close(own, expected, rtol=1e-3, atol=2e-5)


BROKEN = [
    {"bits": "8"}, {"bits": "4"}, {"drop": "oldest-50"}, {"drop": "least-50"},
    {"bits": "4", "drop": "least-75"},
]  # fmt: skip


def rounded(tensor, bits):
    """llama.cpp's q8_0 and q4_0, without the rounding of their scales."""
    blocks = tensor.reshape(*tensor.shape[:-1], -1, 32)
    if bits == 8:
        scale = blocks.abs().amax(-1, keepdim=True) / 127
        scaled = blocks * (1 / scale)
        whole = scaled.sign() * (scaled.abs() + 0.5).floor()
    else:
        scale = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True)) / -8
        whole = (blocks * (1 / scale) + 8.5).trunc().clamp(max=15) - 8
    return (whole * scale).reshape(tensor.shape)


def test_a_cache_breaks_on_the_page_as_it_does_in_transformers(browser, worker, play):
    question = asked("keys", language="en", length=500, depth=50, index=3)
    page = browser.new_page()
    page.goto(worker)
    replies = ask_worker(page, worker, "ask", [{**on_the_page(question), **one} for one in BROKEN])
    page.close()
    ids = play.model.tokenizer.encode(prompt_of(play, question)[1], special=False)
    count = len(ids) - 1
    gone = {}

    def attention(module, query, key, value, mask, scaling, **_):
        scores = query @ key.transpose(2, 3) * scaling + mask[..., : key.shape[2]]
        scores[..., :count].masked_fill_(gone[module.layer_idx][None, :, None], -torch.inf)
        return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None

    transformers.AttentionInterface.register("broken", attention)
    transformers.AttentionMaskInterface.register("broken", transformers.masking_utils.eager_mask)
    for one, reply in zip(BROKEN, replies["replies"], strict=True):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            browsers.LILLE, attn_implementation="eager", dtype=torch.float32
        )
        kind, _, share = one.get("drop", "oldest-0").partition("-")
        dropped = count - int(count * (1 - int(share) / 100))
        with torch.no_grad():
            read = model(torch.tensor([ids[:-1]]), output_attentions=True)
            for number, layer in enumerate(read.past_key_values.layers):
                got = read.attentions[number][0].double().sum(1)
                mean = got / torch.arange(count, 0, -1)
                order = mean.argsort(stable=True)[:, :dropped]
                if kind == "oldest":
                    order = torch.arange(4, 4 + dropped).expand(len(mean), -1)
                gone[number] = torch.zeros_like(mean, dtype=bool).scatter_(1, order, True)
                if bits := int(one.get("bits", 0)):
                    layer.keys, layer.values = (
                        rounded(tensor, bits) for tensor in (layer.keys, layer.values)
                    )
            model.set_attn_implementation("broken")
            said = model.generate(
                torch.tensor([ids]), past_key_values=read.past_key_values, do_sample=False,
                max_new_tokens=len(reply["ids"]),
            )  # fmt: skip
        assert said[0, len(ids) :].tolist() == reply["ids"]
        left = 1 - torch.stack([*gone.values()]).double().mean((0, 1))
        own = torch.tensor([reply["left"][str(at)] for at in range(count)])
        # Two tokens of nearly the same attention may change places.
        assert (own - left).abs().sum() < 1
    # Rounded to 8 bits nothing is lost, and with a quarter of the tokens in 4 bits the value is.
    assert [reply["found"] for reply in replies["replies"]][::4] == [1, 0]


def test_without_javascript_the_page_says_what_it_would_do(browser, address):
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{address}/{PAGE}.html")
    said = page.locator(".ruler-needle noscript p")
    expect(said).to_be_visible()
    assert said.inner_text() == browsers.UNABLE
    assert not page.get_by_role("slider").all()
    expect(page.locator(".starting")).to_be_hidden()
    context.close()


@pytest.mark.parametrize("answer", [{"status": 404}, {"body": b"\0asm\1\0\0\0\xff"}])
def test_where_it_cannot_run_it_says_so(browser, address, answer):
    reader = Reader(browser, address)
    reader.page.context.route("**/kernel.wasm*", lambda route: route.fulfill(**answer))
    reader.press("Ask the model")
    expect(reader.alert).to_contain_text("The model cannot run here")
    # It may be tried again, and no answer stands there.
    expect(reader.answer).to_have_text(LABELS["not asked"])
    expect(reader.button("Ask the model")).to_have_attribute("aria-disabled", "false")
    assert not [url for url in reader.fetched if "safetensors" in url]
    reader.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_the_screen_and_everything_has_a_name(browser, address, width, scheme):
    reader = Reader(browser, address, width=width, scheme=scheme)
    reader.page.get_by_text(LABELS["own"]).click()
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= width
    for role in ("slider", "combobox", "textbox", "button"):
        parts = reader.page.locator(".ruler-needle").get_by_role(role).all()
        assert parts, role
        for part in parts:
            assert part.evaluate(
                """(part) => part.getAttribute('aria-label') || part.textContent.trim() ||
                   [...(part.labels || [])].map((label) => label.textContent).join('')"""
            ), part.evaluate("(part) => part.outerHTML")
    reader.close()


def test_it_is_light_and_shows_text_as_text(site):
    folder = site / "_static" / "needle"
    tokenizers = site / "_static" / "vendor" / "@huggingface" / "tokenizers"
    files = [path for place in (folder, tokenizers) for path in place.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST
    for name in browsers.SHIPPED:
        assert (folder / name).read_bytes() == (browsers.LILLE / name).read_bytes()
    for script in folder.glob("*.js"):
        assert not re.search(r"innerHTML|insertAdjacent|eval\(|https?:", script.read_text("utf-8"))
