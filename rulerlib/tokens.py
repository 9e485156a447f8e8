"""A tokenizer, and exact counts of what it makes of a text.

Three questions are asked here: how many tokens a text has, how many it *adds*
after another text, and in which token a character stands. The tasks need
nothing else to fill a budget to the token.

>>> words = Words()
>>> words.count("Græsset er grønt.")
4
>>> words.added(" Himlen er blå.", after="Græsset er grønt.")
4

``Words`` needs the standard library alone; ``load`` gives the tokenizer of a
real model.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib.errors import MissingExtraError, ParameterError

_MARK = "\ue000rulerlib\ue000"


@dataclass(frozen=True)
class Frame:
    """What stands around a prompt when it is fed to a model.

    A base model is fed ``input + answer_prefix``; a chat model is fed its
    template with the input as the user's turn, and the answer prefix as the
    beginning of the assistant's turn.

    Attributes
    ----------
    before, between
        Text before the input, and between the input and the answer prefix.
    special
        Tokens that the tokenizer itself adds around the text.
    chat
        Whether this is a chat template.
    """

    before: str = ""
    between: str = ""
    special: int = 0
    chat: bool = False

    def prefix(self, answer_prefix: str) -> str:
        """The answer prefix as it is fed: an assistant's turn does not begin with a space."""
        return answer_prefix.lstrip() if self.chat else answer_prefix

    def prompt(self, text: str, answer_prefix: str) -> str:
        """The whole text that the model reads."""
        return f"{self.before}{text}{self.between}{self.prefix(answer_prefix)}"

    def messages(self, text: str, answer_prefix: str) -> tuple[dict[str, str], ...] | None:
        """The same as chat messages; None where the model is fed plain text.

        A last message of the assistant is one that the model continues.
        """
        if not self.chat:
            return None
        turns = [("user", text), ("assistant", self.prefix(answer_prefix))]
        return tuple({"role": role, "content": content} for role, content in turns if content)


class Tokenizer(ABC):
    """Counts tokens. Texts are counted as they are, without special tokens."""

    name: str

    @abstractmethod
    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """For each text, for each token, the characters [start, end) that it covers."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return [len(spans) for spans in self.spans(texts)]

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return self.counts([text])[0]

    def added(self, text: str, after: str) -> int:
        """How many tokens ``text`` adds when it follows ``after``."""
        together, before = self.counts([after + text, after])
        return together - before

    def token_at(self, text: str, character: int) -> int:
        """The index of the token that holds a character of the text.

        Where several tokens hold one character (bytes of a rare letter), the first.
        """
        ends = [end for _, end in self.spans([text])[0]]
        return bisect.bisect_right(ends, character)

    @property
    def fingerprint(self) -> str:
        """A short hash of all that decides how texts are split."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    def frame(self, chat: bool | None = None) -> Frame:
        """What this tokenizer's model wants around a prompt.

        Parameters
        ----------
        chat
            True for the chat template, False for plain text, None for the
            template where there is one.

        Raises
        ------
        ParameterError
            If a chat template is asked for and there is none.
        """
        if chat:
            raise ParameterError(
                "chat", chat, f"false, because the tokenizer '{self.name}' has no chat template"
            )
        return Frame()


class Words(Tokenizer):
    """Words, punctuation marks and newlines as tokens; for trials without any model."""

    name = "words"
    _token = re.compile(r" ?\w+| ?[^\w\s]|\s")

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        return [[match.span() for match in self._token.finditer(text)] for text in texts]


class HuggingFace(Tokenizer):
    """A tokenizer of the `transformers` package.

    Parameters
    ----------
    backend
        What ``AutoTokenizer.from_pretrained`` returns.
    """

    def __init__(self, backend: Any, name: str | None = None) -> None:
        self.backend = backend
        self.name = name or backend.name_or_path
        if not backend.is_fast:
            raise ParameterError(
                "tokenizer", self.name, "a fast tokenizer (one with a tokenizer.json)"
            )

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        return [encoding.offsets for encoding in self._encode(texts)]

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(encoding) for encoding in self._encode(texts)]

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        # The batch call of the Rust tokenizer itself; the Python wrapper around it costs ten
        # times as much on short texts. Truncation and padding may be set in a tokenizer.json.
        rust = self.backend.backend_tokenizer
        if rust.truncation is not None:
            rust.no_truncation()
        if rust.padding is not None:
            rust.no_padding()
        if len(texts) == 1:
            return [rust.encode(texts[0], add_special_tokens=False)]
        encodings: list[Any] = rust.encode_batch(list(texts), add_special_tokens=False)
        return encodings

    def decode(self, ids: Sequence[int], tags: Sequence[str] = ()) -> str:
        """The text of generated tokens, without special tokens other than ``tags``."""
        left_out = {
            token
            for token, added in self.backend.added_tokens_decoder.items()
            if added.special and added.content not in tags
        }
        text: str = self.backend.decode([token for token in ids if token not in left_out])
        return text

    @property
    def fingerprint(self) -> str:
        parts = self.backend.backend_tokenizer.to_str() + str(self.backend.chat_template)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def frame(self, chat: bool | None = None) -> Frame:
        template = self.backend.chat_template
        if chat is None:
            chat = template is not None
        if not chat:
            # As the model's own call adds them, not as a class name promises.
            with_special = len(self.backend("x").input_ids)
            return Frame(special=with_special - self.count("x"))
        if template is None:
            return super().frame(chat)
        turn = [{"role": "user", "content": _MARK}]
        text = self.backend.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, mark, between = text.partition(_MARK)
        if not mark or _MARK in between:
            raise ParameterError(
                "chat",
                True,
                f"false, because the chat template of '{self.name}' does not repeat"
                " the user's text once, as it is",
            )
        return Frame(before=before, between=between, chat=True)


def load(name: str, trust_remote_code: bool = False) -> Tokenizer:
    """The tokenizer of a model.

    Parameters
    ----------
    name
        A local folder, a name on the Hugging Face hub, ``"lille"`` (the model
        inside) or ``"words"``.
    trust_remote_code
        Whether code that comes with a tokenizer may run. Off unless you say so.

    Raises
    ------
    ParameterError
        If there is no such tokenizer.
    MissingExtraError
        If `transformers` is not installed.
    """
    if name == Words.name:
        return Words()
    folder = resolve(name)
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("transformers", "hf", "Reading a model's tokenizer") from error
    try:
        backend = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ParameterError(
            "model", name, f"'lille', a folder with a tokenizer, or a hub name ({reason})"
        ) from error
    return HuggingFace(backend, name)


def resolve(name: str) -> str:
    """Where a model stands: the folder of ``"lille"``, else the name itself.

    Raises
    ------
    ParameterError
        If the name looks like a folder and none is there, or is no name at all.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError("model", name, "'lille', a folder, or a hub name")
    if name == "lille":
        return str(Path(__file__).parent / "models" / "lille")
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists() and not (path / "tokenizer.json").exists():
            raise ParameterError("model", name, "a folder with config.json and tokenizer.json")
        return str(path)
    # A hub name is "owner/name"; anything else was meant as a folder or as 'lille'.
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise ParameterError(
            "model", name, "'lille', a folder that exists, or a hub name such as 'owner/name'"
        )
    return name


def limit(name: str) -> int | None:
    """The longest sequence that a model's configuration allows, in tokens; None where unknown.

    Read from ``config.json`` alone where the model is a folder, so that a
    length that cannot work is refused before anything is loaded.
    """
    folder = Path(resolve(name))
    if not folder.is_dir():
        try:
            from transformers import AutoConfig
        except ImportError as error:
            raise MissingExtraError("transformers", "hf", "Reading a model's limits") from error
        try:
            config = AutoConfig.from_pretrained(name).to_dict()
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ParameterError("model", name, f"a model that can be found ({reason})") from error
    else:
        if not (folder / "config.json").exists():
            return None
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ParameterError(
                "model", name, f"a folder whose config.json can be read ({error})"
            ) from error
    config = {**config, **(config.get("text_config") or {})}
    found = config.get("max_position_embeddings") or config.get("n_positions")
    return int(found) if found else None
