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
import datetime
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib.errors import MissingExtraError, ParameterError, one_of, whole_number

_MARK = "\ue000rulerlib\ue000"

# Where the answer prefix stands: the beginning of the assistant's turn, which the model continues;
# the end of the user's turn; or nowhere.
PLACES = ("assistant", "user", "none")

# What most reasoning models put around their thinking.
TAGS = ("<think>", "</think>")

# What chat templates call the switch of thinking: those of Qwen3, GLM-4.5 and SmolLM3; those of
# DeepSeek-V3.1 and Granite 3.
_SWITCHES = ("enable_thinking", "thinking")


@dataclass(frozen=True)
class Frame:
    """What stands around a prompt when it is fed to a model.

    A base model is fed ``input + answer_prefix``; a chat model is fed its
    template with the input as the user's turn, and the answer prefix where
    ``answer_prefix`` says.

    Attributes
    ----------
    before, between
        Text before the input, and between the input and the answer prefix.
    special
        Tokens that the tokenizer itself adds around the text.
    chat
        Whether this is a chat template.
    answer_prefix
        One of `PLACES`; plain text has no turns, and "user" is there what "assistant" is.
    template
        What the chat template was given besides the messages.
    tags
        What stands before and after thinking.
    """

    before: str = ""
    between: str = ""
    special: int = 0
    chat: bool = False
    answer_prefix: str = "assistant"
    template: Mapping[str, Any] = field(default_factory=dict, hash=False)
    tags: tuple[str, str] = TAGS

    def prefix(self, answer_prefix: str) -> str:
        """The answer prefix as it is fed: an assistant's turn does not begin with a space."""
        if self.answer_prefix == "none":
            return ""
        at_beginning = self.chat and self.answer_prefix == "assistant"
        return answer_prefix.lstrip() if at_beginning else answer_prefix

    def after(self, answer_prefix: str) -> str:
        """All that stands after the input."""
        prefix = self.prefix(answer_prefix)
        return prefix + self.between if self.answer_prefix == "user" else self.between + prefix

    def prompt(self, text: str, answer_prefix: str) -> str:
        """The whole text that the model reads."""
        return f"{self.before}{text}{self.after(answer_prefix)}"

    def messages(self, text: str, answer_prefix: str) -> tuple[dict[str, str], ...] | None:
        """The same as chat messages; None where the model is fed plain text.

        A last message of the assistant is one that the model continues.
        """
        if not self.chat:
            return None
        prefix = self.prefix(answer_prefix)
        if self.answer_prefix == "user":
            return ({"role": "user", "content": text + prefix},)
        turns = [("user", text), ("assistant", prefix)]
        return tuple({"role": role, "content": content} for role, content in turns if content)

    @property
    def thinks(self) -> bool:
        """Whether a prompt ends within thinking, because the template has begun it."""
        begin, end = self.tags
        return self.chat and self.between.rfind(begin) > self.between.rfind(end)

    def split(self, text: str) -> tuple[str, str, bool]:
        """What a model thought, what it answered, and whether it was still thinking at the end.

        >>> Frame(chat=True).split("<think>7? No, 8.</think>\\n\\nIt is 8.")
        ('7? No, 8.', 'It is 8.', False)
        """
        begin, end = self.tags
        if not self.chat:
            return "", text, False
        # An end without a beginning: the server or the template has kept the beginning.
        first_end = text.split(begin, 1)[0].find(end)
        inside = self.thinks or first_end >= 0
        thought: list[str] = []
        said: list[str] = []
        while text:
            piece, found, text = text.partition(end if inside else begin)
            (thought if inside else said).append(piece.replace(begin, ""))
            inside = inside != bool(found)
        thinking, answer = "".join(thought).strip(), "".join(said)
        return thinking, answer.lstrip() if thought else answer, inside


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

    def frame(
        self,
        chat: bool | None = None,
        answer_prefix: str = "assistant",
        thinking: bool | None = None,
        tags: tuple[str, str] = TAGS,
    ) -> Frame:
        """What this tokenizer's model wants around a prompt.

        Parameters
        ----------
        chat
            True for the chat template, False for plain text, None for the
            template where there is one.
        answer_prefix
            Where the answer prefix stands, one of `PLACES`.
        thinking
            Whether the model thinks before it answers, said to its chat template; None: as
            the template has it.
        tags
            What stands before and after thinking.

        Raises
        ------
        ParameterError
            If a chat template is asked for and there is none, if it has no switch that turns
            thinking off, or if a model would have to think after its answer has begun.
        """
        one_of("answer_prefix", answer_prefix, PLACES)
        if chat:
            raise ParameterError(
                "chat", chat, f"false, because the tokenizer '{self.name}' has no chat template"
            )
        if thinking is not None:
            raise ParameterError("thinking", thinking, "None, because no chat template is in use")
        return Frame(special=self._special, answer_prefix=answer_prefix, tags=tags)

    @property
    def _special(self) -> int:
        """Tokens that the tokenizer adds around a text."""
        return 0


class Words(Tokenizer):
    """Words, punctuation marks and newlines as tokens; for trials without any model."""

    name = "words"
    _token = re.compile(r" ?\w+| ?[^\w\s]|\s")

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        return [[match.span() for match in self._token.finditer(text)] for text in texts]


# The day on which every chat takes place, in templates that ask for it. Any fixed day would do.
_DAY = datetime.date(2024, 8, 6)


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
            if added.special and not any(added.content in tag for tag in tags)
        }
        text: str = self.backend.decode([token for token in ids if token not in left_out])
        return text

    @property
    def fingerprint(self) -> str:
        parts = self.backend.backend_tokenizer.to_str() + str(self.backend.chat_template)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    @property
    def _special(self) -> int:
        # As the model's own call adds them, not as a class name promises.
        return len(self.backend("x").input_ids) - self.count("x")

    def frame(
        self,
        chat: bool | None = None,
        answer_prefix: str = "assistant",
        thinking: bool | None = None,
        tags: tuple[str, str] = TAGS,
    ) -> Frame:
        has_template = self.backend.chat_template is not None
        if chat is None:
            chat = has_template
        if not chat or not has_template:
            return super().frame(chat, answer_prefix, thinking, tags)
        one_of("answer_prefix", answer_prefix, PLACES)
        template = self._switch(thinking)
        before, mark, between = self._turn(template).partition(_MARK)
        if not mark or _MARK in between:
            raise ParameterError(
                "chat",
                True,
                f"false, because the chat template of '{self.name}' does not repeat"
                " the user's text once, as it is",
            )
        frame = Frame(
            before=before, between=between, chat=True, answer_prefix=answer_prefix,
            template=template, tags=tags,
        )  # fmt: skip
        if answer_prefix == "assistant" and (thinking or frame.thinks):
            raise _prefix_after_thinking(self.name)
        return frame

    def _turn(self, template: Mapping[str, Any]) -> str:
        """The chat template around a mark."""
        turn = [{"role": "user", "content": _MARK}]
        # Some templates tell the model today's date: then a run would not be the same tomorrow.
        text: str = self.backend.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True, strftime_now=_DAY.strftime, **template
        )
        return text

    def _switch(self, thinking: bool | None) -> dict[str, bool]:
        """What the template must be told so that the model thinks, or does not."""
        if thinking is None:
            return {}
        for name in _SWITCHES:
            # A template ignores what it does not know.
            if self._turn({name: True}) != self._turn({name: False}):
                return {name: thinking}
        if thinking:
            # Some models always think, and their templates need no switch.
            return {}
        raise ParameterError(
            "thinking", False,
            f"None or True, because the chat template of '{self.name}' cannot switch it off",
        )  # fmt: skip


def check_thinking(name: str, frame: Frame, thinking: bool | None, thinking_tokens: int) -> None:
    """Check that there is room for thinking where a model thinks, and only there.

    Parameters
    ----------
    name
        The model's.
    thinking_tokens
        Room for thinking, in tokens, on top of that for the answer.

    Raises
    ------
    ParameterError
    """
    whole_number("thinking_tokens", thinking_tokens, 0)
    if thinking and not thinking_tokens:
        raise ParameterError("thinking_tokens", 0, "at least 1 where thinking is True")
    if thinking_tokens and (thinking is False or not frame.chat):
        why = "thinking is False" if frame.chat else "no chat template is in use"
        raise ParameterError("thinking_tokens", thinking_tokens, f"0, because {why}")
    if thinking_tokens and frame.answer_prefix == "assistant":
        raise _prefix_after_thinking(name)


def check_tags(tags: Any) -> tuple[str, str]:
    """What stands before and after thinking, as a pair.

    Raises
    ------
    ParameterError
        If it is no pair of two different texts.
    """
    if (
        not isinstance(tags, (list, tuple))
        or len(tags) != 2
        or not all(isinstance(tag, str) and tag.strip() for tag in tags)
        or tags[0] == tags[1]
    ):
        raise ParameterError("thinking_tags", tags, 'two texts such as ["<think>", "</think>"]')
    return tags[0], tags[1]


def _prefix_after_thinking(name: str) -> ParameterError:
    return ParameterError(
        "answer_prefix", "assistant",
        f"'user' or 'none', because '{name}' thinks first and cannot think after its answer has"
        " begun",
    )  # fmt: skip


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
