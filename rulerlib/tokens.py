"""Tokenizers: how many tokens a text has, and which characters each of them covers.

>>> words = Words()
>>> words.count("Græsset er grønt.")
4
>>> words.spans(["Et ord"])
[[(0, 2), (2, 6)]]

``Words`` needs only the standard library. ``load`` returns the tokenizer of a model, read from its
``tokenizer.json`` without torch and transformers.

`costs` returns the tokens that each unit of a haystack adds:

>>> costs(["The sky is blue.", "Grass is green."], " ", words)
[5, 4]
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import json
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rulerlib import checkpoints, packages
from rulerlib.errors import DataError, ParameterError, RulerError

DAY = datetime.date(2024, 8, 6)
"""The date in chat templates that ask for today's: a fixed one, so that runs can be repeated."""

SAMPLE = 10_000
"""The number of characters of a text that are searched for unknown tokens."""

# Stands for the first character of a control token: "\uffff/s>" ends a text, and "</s>" is four
# characters of it. Unicode keeps U+FFFF for such internal use.
_MARK = "\uffff"


class Prompt(str):
    """A prompt with a chat template, whose special tokens differ from those in the user's texts.

    Attributes
    ----------
    marked
        The same text with the control tokens of the template marked, see `Tokenizer.mark`. A
        tokenizer reads this one.
    """

    marked: str

    def __new__(cls, text: str, marked: str = "") -> Prompt:
        prompt = super().__new__(cls, text)
        prompt.marked = marked
        return prompt

    def __getitem__(self, key: Any) -> Prompt:
        # Marks keep the places of all characters.
        return Prompt(super().__getitem__(key), self.marked[key])


class Tokenizer(ABC):
    """A tokenizer. It counts the tokens of texts as they are, without special tokens.

    A control token in a text, such as ``</s>``, is read as text, unless it is marked. All special
    tokens are control tokens, and so are other added tokens that the chat template contains.

    Attributes
    ----------
    name
        What it is called in settings and errors.
    special_tokens
        Special tokens by their role: ``{"bos_token": "<s>", ...}``.
    chat_template
        The source of the chat template, or None.
    named_templates
        The names of several chat templates without a default.
    all_special_tokens
        The texts of all special tokens, with or without a role.
    """

    name: str
    special_tokens: Mapping[str, str] = MappingProxyType({})
    all_special_tokens: frozenset[str] = frozenset()
    chat_template: str | None = None
    named_templates: Sequence[str] = ()

    @property
    def special(self) -> int:
        """The number of tokens that it adds before a text that is fed to its model."""
        return 0

    @abstractmethod
    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return, for each text, for each token, the characters [start, end) that it covers."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(spans) for spans in self.spans(texts)]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return self.counts([text])[0]

    def mark(self, text: str) -> str:
        """Return a text whose control tokens are marked, and marked ones are not."""
        return text

    def unmark(self, text: str) -> str:
        """Return a text without marks, as a person reads it."""
        return text

    def unknown(self, text: str) -> list[str]:
        """Return the pieces of a text that the tokenizer turns into unknown tokens."""
        return []

    @property
    def fingerprint(self) -> str:
        """A hash of how texts are split and of the chat template, 16 hexadecimal digits."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    def render(self, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
        """Return messages rendered by the chat template.

        Parameters
        ----------
        variables
            Further variables of the template, such as ``enable_thinking``. By default the
            assistant's turn is begun (``add_generation_prompt``).

        Raises
        ------
        ParameterError
            If the template cannot render these messages.
        MissingExtraError
            If `jinja2` is not installed.
        """
        template, variables = self.chat_template or "", {**self.special_tokens, **variables}
        try:
            return render_template(template, messages, **variables)
        except RulerError:
            raise
        except Exception as error:
            # A template is code of others, and may raise anything.
            allowed_values = f"false, because the chat template of '{self.name}' does not render"
            reason = checkpoints.reason(error)
            raise ParameterError("chat", True, f"{allowed_values} ({reason})") from error


class Words(Tokenizer):
    """Words, punctuation marks and newlines as tokens; needs no model."""

    name = "words"
    _token = re.compile(r" ?\w+| ?[^\w\s]|\s")

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `Tokenizer`."""
        return [[match.span() for match in self._token.finditer(text)] for text in texts]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """See `Tokenizer`."""
        return [len(self._token.findall(text)) for text in texts]


class FastTokenizer(Tokenizer):
    """A tokenizer of the `tokenizers` package, with the settings in a model's folder.

    Parameters
    ----------
    backend
        A ``tokenizers.Tokenizer``. Its truncation and padding are switched off.
    name, special_tokens
        See `Tokenizer`.
    chat_template
        Its source, or several by name, of which the one called ``default`` is used.
    clean_up
        Whether decoding takes away spaces before punctuation marks.

    Attributes
    ----------
    eos_id, pad_id
        The ids of the end-of-text and the padding token, or None.
    """

    def __init__(
        self,
        backend: Any,
        name: str,
        special_tokens: Mapping[str, str] | None = None,
        chat_template: Any = None,
        clean_up: bool = False,
    ) -> None:
        self.backend, self.name = backend, name
        if isinstance(chat_template, (list, tuple)):
            chat_template = {named["name"]: named["template"] for named in chat_template}
        if isinstance(chat_template, Mapping):
            self.named_templates = () if "default" in chat_template else [*chat_template]
            chat_template = chat_template.get("default")
        self.chat_template = chat_template if isinstance(chat_template, str) else None
        self.special_tokens = dict(special_tokens or {})
        added = backend.get_added_tokens_decoder().items()
        self._special = {number: token.content for number, token in added if token.special}
        self.all_special_tokens = frozenset(self._special.values())
        # Some models have control tokens that are not special, such as "<｜User｜>" of DeepSeek.
        template = self.chat_template or ""
        control = {
            token.content
            for _, token in added
            if token.special or (token.content in template and not token.content.isspace())
        }
        if backend.encode_special_tokens:
            # It reads all of them as text, also those of its chat template.
            control = set()
        # Long ones first, because one may begin as another does.
        control_tokens = sorted(control, key=len, reverse=True)
        self._marks = {token: _MARK + token[1:] for token in control_tokens if token}
        self._unmarks = {marked: token for token, marked in self._marks.items()}
        ids = {role: backend.token_to_id(token) for role, token in self.special_tokens.items()}
        self.eos_id: int | None = ids.get("eos_token")
        self.pad_id: int | None = ids.get("pad_token")
        # As transformers has it: of a BPE's text the clean-up would take spaces that belong there.
        self._clean_up = clean_up and type(backend.model).__name__ != "BPE"
        backend.no_truncation()
        backend.no_padding()

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `Tokenizer`."""
        return [encoding.offsets for encoding in self._encoded("encode_batch", texts)]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """See `Tokenizer`."""
        # The same tokens without their places, in little more than half the time.
        return [*map(len, self._encoded("encode_batch_fast", texts))]

    def encode(self, text: str, special: bool) -> list[int]:
        """Return the ids of a text's tokens.

        Parameters
        ----------
        special
            Whether the tokens that begin a text come first, as a model expects them. Those that a
            tokenizer appends, such as ``</s>``, are left out: the model continues the text.
        """
        [encoding] = self._encoded("encode_batch", [text])
        return [*(self.beginning if special else ()), *encoding.ids]

    def _encoded(self, method: str, texts: Sequence[str]) -> list[Any]:
        """Return what a method of the library makes of texts.

        Raises
        ------
        DataError
            If it fails: its files are damaged, for a sound tokenizer takes any text. The library
            raises a bare Exception.
        """
        texts = [text.marked if isinstance(text, Prompt) else text for text in texts]
        try:
            if self._marks and any(map(self._any_control.search, texts)):
                backend = self._literal
            else:
                backend, texts = self.backend, [*map(self.unmark, texts)]
            encodings: list[Any] = getattr(backend, method)(texts, add_special_tokens=False)
        except Exception as error:
            raise DataError(f"The tokenizer '{self.name}' cannot read a text ({error}).") from error
        return encodings

    @functools.cached_property
    def _any_control(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._marks)))

    @functools.cached_property
    def _any_mark(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._unmarks)))

    @functools.cached_property
    def _literal(self) -> Any:
        """The tokenizer with its control tokens renamed to their marked forms.

        It knows no others, so that the usual forms are text to it.
        """
        names = {json.dumps(token, ensure_ascii=False): token for token in self._marks}
        renamed = re.sub(
            "|".join(map(re.escape, names)),
            lambda name: json.dumps(self._marks[names[name[0]]], ensure_ascii=False),
            self.backend.to_str(),
        )
        return type(self.backend).from_str(renamed)

    def mark(self, text: str) -> str:
        """See `Tokenizer`."""
        if not self._marks:
            return text
        swapped = self._marks | self._unmarks
        either = f"{self._any_control.pattern}|{self._any_mark.pattern}"
        return re.sub(either, lambda token: swapped[token[0]], text)

    def unmark(self, text: str) -> str:
        """See `Tokenizer`."""
        if _MARK not in text or not self._marks:
            return text
        return self._any_mark.sub(lambda token: self._unmarks[token[0]], text)

    def unknown(self, text: str) -> list[str]:
        """See `Tokenizer`."""
        token = self.special_tokens.get("unk_token") or getattr(self.backend.model, "unk_token", "")
        number = self.backend.token_to_id(token) if token else None
        if number is None and type(self.backend.model).__name__ == "Unigram":
            number = json.loads(self.backend.to_str())["model"]["unk_id"]
        [encoding] = self._encoded("encode_batch", [text])
        places = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:end] for each, (start, end) in places if each == number]

    def decode(self, ids: Sequence[int], tags: Sequence[str] = ()) -> str:
        """Return the text of generated tokens, without special tokens other than ``tags``."""
        kept = [
            token
            for token in ids
            if token not in self._special or any(self._special[token] in tag for tag in tags)
        ]
        text: str = self.backend.decode(kept, skip_special_tokens=False)
        if self._clean_up:
            for mark in (".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re"):
                text = text.replace(" " + mark, mark.rstrip())
        return text

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `Tokenizer`."""
        # The text of 262,144 tokens is large, and each cell of a run asks for its hash.
        parts = self.backend.to_str() + str(self.chat_template)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    @property
    def special(self) -> int:
        """See `Tokenizer`."""
        return len(self.beginning)

    @functools.cached_property
    def beginning(self) -> tuple[int, ...]:
        """The ids of the tokens that begin a text."""
        # As its post-processor adds them, not as a setting or a class's name promises.
        whole, text = (
            self.backend.encode("x", add_special_tokens=special).ids for special in (True, False)
        )
        starts = range(len(whole) - len(text) + 1)
        first = next(at for at in starts if whole[at : at + len(text)] == text)
        return tuple(whole[:first])

    @functools.cached_property
    def vocabulary(self) -> int:
        """See `Tokenizer`."""
        return int(self.backend.get_vocab_size())


def warn_unknown(text: str, tokenizer: Tokenizer) -> None:
    """Warn if a tokenizer does not know some letters or words of a text."""
    if not (unknown := tokenizer.unknown(text)):
        return
    examples = ", ".join(map(repr, [*dict.fromkeys(unknown)][:5]))
    warnings.warn(
        f"The tokenizer '{tokenizer.name}' turns {len(unknown):,} of {tokenizer.count(text):,}"
        f" tokens of the text into unknown tokens, which a model cannot tell apart: {examples}.",
        stacklevel=3,
    )


def load(name: str, trust_remote_code: bool = False) -> Tokenizer:
    """Return the tokenizer of a model.

    ``tokenizer.json`` decides how texts are split and which tokens are added around them. A
    tokenizer without this file, or with code of its own, is read by transformers.

    Parameters
    ----------
    name
        A local folder, a name on the Hugging Face hub, ``"lille"`` (the bundled model) or
        ``"words"``.
    trust_remote_code
        Whether code that comes with a tokenizer may run.

    Raises
    ------
    ParameterError
        If there is no such tokenizer, or it cannot be read.
    MissingExtraError
        If a package that reads it is not installed.
    """
    if name == Words.name:
        return Words()
    folder = checkpoints.small_files(name)
    config = checkpoints.read_json(folder / "tokenizer_config.json", name)
    code = config.get("auto_map") or {}
    own_code = not isinstance(code, Mapping) or code.get("AutoTokenizer")
    if own_code or not (folder / "tokenizer.json").exists():
        return _converted(name, trust_remote_code)
    tokenizers = packages.load("tokenizers", "tokenizer", "Reading a model's tokenizer")
    if "added_tokens_decoder" not in config:
        config |= checkpoints.read_json(folder / "special_tokens_map.json", name)
    try:
        backend = tokenizers.Tokenizer.from_str((folder / "tokenizer.json").read_text("utf-8"))
        special_tokens = _add_special_tokens(backend, config)
        configured = _configured_templates(folder, config)
        clean_up = bool(config.get("clean_up_tokenization_spaces"))
        return FastTokenizer(backend, name, special_tokens, configured, clean_up)
    except Exception as error:
        # The package raises nothing more precise, and a configuration may hold anything.
        allowed_values = f"one whose tokenizer.json can be read ({checkpoints.reason(error)})"
        raise ParameterError("model", name, allowed_values) from error


def _add_special_tokens(backend: Any, config: Mapping[str, Any]) -> dict[str, str]:
    """Add the tokens that only the configuration knows, and return those with a role.

    As transformers does it; what ``tokenizer.json`` knows stays as it is.
    """
    from tokenizers import AddedToken

    def token(value: Any, special: bool = True) -> Any:
        flags = {"content": value} if isinstance(value, str) else dict(value)
        flags.pop("__type", None)
        return AddedToken(**{"special": special, **flags})

    more = config.get("extra_special_tokens") or config.get("additional_special_tokens") or {}
    named = {
        role: token(value)
        for role, value in {**config, **(more if isinstance(more, dict) else {})}.items()
        if isinstance(value, (str, dict)) and (role.endswith("_token") or role in more)
    }
    unnamed = [token(value) for value in more] if isinstance(more, list) else []
    decoder = config.get("added_tokens_decoder") or {}
    rows = [token(decoder[key], special=False) for key in sorted(decoder, key=int)]
    already = {entry.content for entry in backend.get_added_tokens_decoder().values()}
    added = (*rows, *named.values(), *unnamed)
    backend.add_tokens([entry for entry in added if entry.content not in already])
    backend.encode_special_tokens = bool(config.get("split_special_tokens"))
    return {role: entry.content for role, entry in named.items()}


def _configured_templates(folder: Path, config: Mapping[str, Any]) -> Any:
    """Return the chat templates of a folder as transformers reads them."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text("utf-8")
    named = sorted((folder / "additional_chat_templates").glob("*.jinja"))
    if named:
        return {file.stem: file.read_text("utf-8") for file in named}
    return config.get("chat_template")


def _converted(name: str, trust_remote_code: bool) -> FastTokenizer:
    """Return a tokenizer that only transformers can read."""
    auto = packages.load("transformers", "hf", "Reading this model's tokenizer").AutoTokenizer
    folder = checkpoints.folder(name)
    try:
        tokenizer = auto.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        reason = checkpoints.reason(error)
        allowed_values = (
            f"a model known by name, a folder with a tokenizer, or a hub name ({reason})"
        )
        raise ParameterError("model", name, allowed_values) from error
    if not tokenizer.is_fast:
        raise ParameterError("tokenizer", name, "a fast tokenizer (one with a tokenizer.json)")
    return FastTokenizer(
        tokenizer.backend_tokenizer,
        name,
        {role: str(token) for role, token in tokenizer.special_tokens_map.items()},
        tokenizer.chat_template,
        bool(tokenizer.clean_up_tokenization_spaces),
    )


def render_template(template: str, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
    """Return messages rendered by a chat template.

    Parameters
    ----------
    template
        Its source, in Jinja.
    messages
        Each ``{"role": ..., "content": ...}``.
    variables
        Further variables of the template: special tokens and its own settings. By default the
        assistant's turn is begun (``add_generation_prompt``).

    Raises
    ------
    jinja2.TemplateError
        If the template cannot be read, or refuses the messages.
    MissingExtraError
        If `jinja2` is not installed.
    """
    usual = {"tools": None, "documents": None, "add_generation_prompt": True}
    turns = [dict(message) for message in messages]
    return str(_compiled(template).render(**{**usual, **variables, "messages": turns}))


@functools.lru_cache
def _compiled(template: str) -> Any:
    packages.load("jinja2", "tokenizer", "A chat template")
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class OwnWords(Extension):
        """Marks what the model itself has said; its text stays as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[OwnWords, loopcontrols]
    )
    # Not as jinja2 has it, which escapes for HTML.
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    environment.globals.update(raise_exception=raise_exception, strftime_now=DAY.strftime)
    return environment.from_string(template)


# --- The cost of units ---------------------------------------------------------------------------

ANCHOR = "x."
"""The text before a unit when its cost is counted; a unit ends like this, as a sentence does."""

# Units of LONG characters together are counted by their words, if that is right for CHECKED units.
LONG, CHECKED = 2**18, 64

# A word with the space before it. Numbers and names are cut where most tokenizers cut them.
_WORD = re.compile(r"(?!\Z) ?(?:\d{1,3}|[-(])?(?:[^\s\d(-]+|\s{2,}|[^\S ])*")


def costs(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that each unit adds, including the seam before it; at least 1.

    Many units are counted by their words, each different word once, which takes a fifth of the
    time. Some units are tokenized whole to check that this is the same with this tokenizer.
    """
    different, count = list(dict.fromkeys(units)), _whole
    if seam and sum(map(len, different)) >= LONG:
        some = different[:: -(-len(different) // CHECKED)]
        if _by_words(some, seam, tokenizer) == _whole(some, seam, tokenizer):
            count = _by_words
    cost = dict(zip(different, count(different, seam, tokenizer), strict=True))
    return [cost[unit] for unit in units]


def _whole(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    anchor, *counts = tokenizer.counts([ANCHOR, *(ANCHOR + seam + unit for unit in units)])
    # A token that crosses the seam may hide a unit, but nothing is free.
    return [max(1, count - anchor) for count in counts]


def _by_words(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    words = [_WORD.findall(seam + unit) for unit in units]
    different = list(dict.fromkeys(itertools.chain.from_iterable(words)))
    # A piece within a word has a letter before it, not a full stop.
    anchors = [ANCHOR if word[:1].isspace() else ANCHOR[:1] for word in different]
    texts = [anchor + word for anchor, word in zip(anchors, different, strict=True)]
    before = {anchor: tokenizer.count(anchor) for anchor in (ANCHOR, ANCHOR[:1])}
    counts = zip(different, anchors, tokenizer.counts(texts), strict=True)
    cost = {word: max(1, count - before[anchor]) for word, anchor, count in counts}
    return [sum(cost[word] for word in some) for some in words]
