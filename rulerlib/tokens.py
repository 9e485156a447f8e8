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
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rulerlib import checkpoints
from rulerlib.errors import MissingExtraError, ParameterError, load_package

DAY = datetime.date(2024, 8, 6)
"""The date in chat templates that ask for today's: a fixed one, so that runs can be repeated."""


class Tokenizer(ABC):
    """A tokenizer. It counts the tokens of texts as they are, without special tokens.

    The special tokens are control tokens, and so are other added tokens that the chat template
    contains. A text that contains one is refused, see `control_token`.

    Attributes
    ----------
    name
        What it is called in settings and errors.
    special_tokens
        Special tokens by their role: ``{"bos_token": "<s>", ...}``.
    chat_template
        The source of the chat template, or None.
    all_special_tokens
        The texts of all special tokens, with or without a role.
    special
        The number of tokens that it adds before a text that is fed to its model.
    """

    name: str
    special_tokens: Mapping[str, str] = MappingProxyType({})
    all_special_tokens: frozenset[str] = frozenset()
    chat_template: str | None = None
    special: int = 0

    @abstractmethod
    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return, for each text, for each token, the characters [start, end) that it covers."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(spans) for spans in self.spans(texts)]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return self.counts([text])[0]

    def control_token(self, text: str) -> str | None:
        """Return the first control token in a text, such as ``</s>``, or None."""
        return None

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
        values = {**self.special_tokens, **variables}
        try:
            return render_template(self.chat_template or "", messages, **values)
        except MissingExtraError:
            raise
        except Exception as error:
            # A template is code of others, and may raise anything.
            does_not = f"because the chat template of '{self.name}' does not render"
            allowed = f"false, {does_not} ({checkpoints.reason(error)})"
            raise ParameterError("chat", True, allowed) from error


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
    name, special_tokens, chat_template
        See `Tokenizer`.

    Attributes
    ----------
    beginning
        The ids of the tokens that begin a text.
    eos_id, pad_id
        The ids of the end-of-text and the padding token, or None.
    """

    def __init__(
        self,
        backend: Any,
        name: str,
        special_tokens: Mapping[str, str] | None = None,
        chat_template: str | None = None,
    ) -> None:
        self.backend, self.name, self.chat_template = backend, name, chat_template
        self.special_tokens = dict(special_tokens or {})
        added = backend.get_added_tokens_decoder()
        self._special = {at: token.content for at, token in added.items() if token.special}
        self.all_special_tokens = frozenset(self._special.values())
        # Some models have control tokens that are not special, such as "<｜User｜>" of DeepSeek.
        contents = {token.content for token in added.values() if token.content.strip()}
        named = {content for content in contents if content in (chat_template or "")}
        control = sorted(self.all_special_tokens | named)
        self._control = re.compile("|".join(map(re.escape, control)) or "(?!)")
        ids = {role: backend.token_to_id(token) for role, token in self.special_tokens.items()}
        self.eos_id: int | None = ids.get("eos_token")
        self.pad_id: int | None = ids.get("pad_token")
        backend.no_truncation()
        backend.no_padding()
        # As its post-processor adds them, not as a setting or a class's name promises.
        whole, text = (backend.encode("x", add_special_tokens=added).ids for added in (True, False))
        at = next(at for at in range(len(whole) + 1) if whole[at : at + len(text)] == text)
        self.beginning = whole[:at]
        self.special = len(self.beginning)

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `Tokenizer`."""
        encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        return [encoding.offsets for encoding in encodings]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """See `Tokenizer`."""
        # The same tokens without their places, in little more than half the time.
        return [*map(len, self.backend.encode_batch_fast(texts, add_special_tokens=False))]

    def encode(self, text: str, special: bool) -> list[int]:
        """Return the ids of a text's tokens.

        Parameters
        ----------
        special
            Whether the tokens that begin a text come first, as a model expects them. Those that a
            tokenizer appends, such as ``</s>``, are left out: the model continues the text.
        """
        ids = self.backend.encode(text, add_special_tokens=False).ids
        return [*(self.beginning if special else ()), *ids]

    def control_token(self, text: str) -> str | None:
        """See `Tokenizer`."""
        found = self._control.search(text)
        return found[0] if found else None

    def decode(self, ids: Sequence[int], tags: Sequence[str] = ()) -> str:
        """Return the text of generated tokens, without special tokens other than ``tags``."""
        kept = [
            token
            for token in ids
            if token not in self._special or any(self._special[token] in tag for tag in tags)
        ]
        return str(self.backend.decode(kept, skip_special_tokens=False))

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `Tokenizer`."""
        # The text of 262,144 tokens is large, and each cell of a run asks for its hash.
        parts = self.backend.to_str() + str(self.chat_template)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


def load(name: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer of a model, or one that is loaded already.

    ``tokenizer.json`` decides how texts are split and which tokens are added around them.

    Parameters
    ----------
    name
        A local folder, a name on the Hugging Face hub, ``"lille"`` (the bundled model) or
        ``"words"``.

    Raises
    ------
    ParameterError
        If there is no such tokenizer, it has no ``tokenizer.json``, or it cannot be read.
    MissingExtraError
        If the package that reads it is not installed.
    """
    if isinstance(name, Tokenizer):
        return name
    if name == Words.name:
        return Words()
    folder = checkpoints.small_files(name)
    file = folder / "tokenizer.json"
    if not file.exists():
        allowed = (
            "a model with a tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...)"
            " of transformers writes one for most models)"
        )
        raise ParameterError("model", name, allowed)
    tokenizers = load_package("tokenizers", "tokenizer", "Reading a model's tokenizer")
    config = checkpoints.read_json(folder / "tokenizer_config.json", name)
    try:
        backend = tokenizers.Tokenizer.from_str(file.read_text("utf-8"))
    except Exception as error:
        # The package raises nothing more precise.
        allowed = f"one whose tokenizer.json can be read ({checkpoints.reason(error)})"
        raise ParameterError("model", name, allowed) from error
    special_tokens = {
        role: token["content"] if isinstance(token, dict) else token
        for role, token in config.items()
        if role.endswith("_token") and isinstance(token, (str, dict))
    }
    template = config.get("chat_template")
    if isinstance(template, list):
        template = {named["name"]: named["template"] for named in template}.get("default")
    beside = folder / "chat_template.jinja"
    if beside.exists():
        template = beside.read_text("utf-8")
    return FastTokenizer(backend, name, special_tokens, template)


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
    load_package("jinja2", "tokenizer", "A chat template")
    import jinja2
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    # Not as jinja2 has it, which escapes for HTML.
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    environment.globals.update(raise_exception=raise_exception, strftime_now=DAY.strftime)
    # What the model itself has said is marked for training; its text stays as it is.
    template = re.sub(r"({%-?\s*)generation\b", r"\1if true", template)
    template = re.sub(r"({%-?\s*)endgeneration\b", r"\1endif", template)
    return environment.from_string(template)


# --- The cost of units ---------------------------------------------------------------------------

ANCHOR = "x."
"""The text before a unit when its cost is counted; a unit ends like this, as a sentence does."""


def costs(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that each unit adds, including the seam before it; at least 1."""
    different = list(dict.fromkeys(units))
    anchor, *counts = tokenizer.counts([ANCHOR, *(ANCHOR + seam + unit for unit in different)])
    # A token that crosses the seam may hide a unit, but nothing is free.
    cost = {unit: max(1, count - anchor) for unit, count in zip(different, counts, strict=True)}
    return [cost[unit] for unit in units]


def thousands(length: int) -> str:
    """Return a length in tokens as it is written: in units of 1,024 where it comes out even.

    >>> thousands(131072), thousands(1000)
    ('128K', '1000')
    """
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)
