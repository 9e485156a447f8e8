"""The format of prompts (chat template, system prompt, thinking) and the decoding of answers.

`PromptFormat` holds the settings of a format. Its ``frame`` is the text around every question for
one tokenizer. `Decoding` holds the settings of decoding.

>>> from rulerlib.tokens import Words
>>> PromptFormat(answer_prefix="none").frame(Words()).prompt("What is 2 + 2?", " It is")
'What is 2 + 2?'
>>> Decoding(temperature=1, samples=4).settings()
{'temperature': 1.0, 'top_p': 1.0, 'seed': None, 'samples': 4}
>>> split_thinking("<think>7? No, 8.</think>\\n\\nIt is 8.")
('7? No, 8.', 'It is 8.', False)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Self

from pydantic import Field

from rulerlib.errors import ParameterError, one_of, validated, whole_number
from rulerlib.tokens import Tokenizer

TAGS = ("<think>", "</think>")
"""The tags around the thinking of most reasoning models."""

# Anything that looks like such a tag, also in other formats, such as the channels of gpt-oss.
_TAG = re.compile(
    r"<\|?/?[\w:]*(?i:think|thought|reason|reflect|analysis|channel|scratchpad)\w*\|?>"
    r"|\[/?THINK\w*\]|◁/?think▷"
)

PLACES = ("assistant", "user", "none")
"""The positions of the answer prefix: at the beginning of the assistant's turn, which the model
continues; at the end of the user's turn; or nowhere."""

# With quotation marks, which templates that write JSON or HTML change.
_MARK = '\ue000"rulerlib"\ue000'

# The variable that switches thinking on in chat templates: of Qwen3, GLM-4.5 and SmolLM3; of
# DeepSeek-V3.1 and Granite 3.
_SWITCHES = ("enable_thinking", "thinking")


@validated
class PromptFormat:
    """The format of prompts.

    Attributes
    ----------
    chat
        Whether to use the chat template. If None, where the model has one.
    system_prompt
        The system message before the question. Without a chat template it is the first paragraph.
    answer_prefix
        The position of the answer prefix, one of `PLACES`. Plain text has no turns: "user" is the
        same as "assistant".
    thinking
        Whether the model thinks before it answers; passed to the chat template. If None, the
        template's default.
    thinking_tokens
        Tokens for thinking, on top of those for the answer.
    thinking_tags
        The tags before and after thinking. Other formats, such as ``[THINK]`` and the channels of
        gpt-oss, must be given; an answer with such a tag gives a warning.
    stop
        Texts that end an answer.

    Raises
    ------
    ParameterError
        If a value is not allowed, alone or with the others.
    """

    chat: bool | None = None
    system_prompt: str | None = None
    answer_prefix: str = "assistant"
    thinking: bool | None = None
    thinking_tokens: Annotated[int, Field(ge=0)] = 0
    # Recorded settings have lists.
    thinking_tags: Annotated[tuple[str, ...], Field(strict=False)] = TAGS
    stop: Annotated[tuple[str, ...], Field(strict=False)] = ()

    def __post_init__(self) -> None:
        one_of("answer_prefix", self.answer_prefix, PLACES)
        tags, tokens = self.thinking_tags, self.thinking_tokens
        if self.system_prompt is not None and not self.system_prompt.strip():
            raise ParameterError("system_prompt", self.system_prompt, "a text, or None")
        if len({*filter(None, tags)}) != 2 or len(tags) != 2:
            raise ParameterError("thinking_tags", tags, "two different texts")
        if not all(self.stop):
            raise ParameterError("stop", self.stop, 'a list of texts such as ["\\n"]')
        if self.chat is False:
            self._check_plain()
        if self.thinking and not tokens:
            raise ParameterError("thinking_tokens", 0, "at least 1 if thinking is True")
        if self.thinking is False and tokens:
            raise ParameterError("thinking_tokens", tokens, "0, because thinking is False")
        if tokens:
            self._check_prefix("a model that thinks")

    def _check_prefix(self, model: str) -> None:
        if self.answer_prefix == "assistant":
            why = f"because {model} thinks first and cannot think after the beginning of its answer"
            raise ParameterError("answer_prefix", self.answer_prefix, f"'user' or 'none', {why}")

    def _check_plain(self) -> None:
        """Check that nothing is set that needs a chat template."""
        values: dict[str, Any] = {"thinking": None, "thinking_tokens": 0}
        # Plain text is expected with chat=False, but not if the model has no template.
        if self.chat is None:
            values["system_prompt"] = None
        for name, default in values.items():
            if getattr(self, name) != default:
                allowed = f"{default}, because no chat template is in use"
                raise ParameterError(name, getattr(self, name), allowed)

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return {**asdict(self), "thinking_tags": [*self.thinking_tags], "stop": [*self.stop]}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return the format of recorded settings; missing ones have their defaults.

        Raises
        ------
        ParameterError
            If a value is not allowed.
        """
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in names})

    def frame(self, tokenizer: Tokenizer) -> Frame:
        """Return the text around every prompt of a tokenizer's model.

        Raises
        ------
        ParameterError
            If the chat template is missing, changes the user's text, or cannot switch thinking
            off; if the model would have to think after the beginning of its answer; or if the
            system prompt contains a control token of the tokenizer.
        MissingExtraError
            If `jinja2`, which renders chat templates, is not installed.
        """
        template = f"the chat template of '{tokenizer.name}'"
        if self.system_prompt and (token := tokenizer.control_token(self.system_prompt)):
            allowed = f"a text without '{token}', a control token of '{tokenizer.name}'"
            raise ParameterError("system_prompt", self.system_prompt, allowed)
        if self.chat and tokenizer.chat_template is None:
            allowed = f"false, because the tokenizer '{tokenizer.name}' has no chat template"
            raise ParameterError("chat", True, allowed)
        if self.chat is False or tokenizer.chat_template is None:
            self._check_plain()
            before = f"{self.system_prompt}\n\n" if self.system_prompt else ""
            return Frame(before, special=tokenizer.special, format=replace(self, chat=False))
        if self.system_prompt is not None and not _takes_system(tokenizer):
            allowed = f"None, because {template} takes no system message"
            raise ParameterError("system_prompt", self.system_prompt, allowed)
        options = self._thinking_option(tokenizer)
        rendered = tokenizer.render(_turns(self.system_prompt, _MARK), **options)
        if rendered.count(_MARK) != 1:
            allowed = f"false, because {template} does not repeat the user's text once, as it is"
            raise ParameterError("chat", True, allowed)
        before, _, between = rendered.partition(_MARK)
        frame = Frame(before, between, chat=True, template=options, format=replace(self, chat=True))
        if frame.thinks:
            self._check_prefix(f"'{tokenizer.name}'")
        return replace(frame, turns=_joins(frame, tokenizer))

    def _thinking_option(self, tokenizer: Tokenizer) -> dict[str, bool]:
        """Return the variable of the template that switches thinking on or off."""
        if self.thinking is None:
            return {}
        turns = _turns(self.system_prompt, _MARK)
        for name in _SWITCHES:
            # A template ignores variables that it does not have.
            if tokenizer.render(turns, **{name: True}) != tokenizer.render(turns, **{name: False}):
                return {name: self.thinking}
        # Models that always think need no switch.
        if not self.thinking:
            why = f"because the chat template of '{tokenizer.name}' cannot switch it off"
            raise ParameterError("thinking", False, f"None or True, {why}")
        return {}


@dataclass(frozen=True)
class Frame:
    """The text around a prompt as a model reads it.

    A base model reads ``input + answer_prefix``. A chat model reads its template with the input as
    the user's turn, and the answer prefix at the position of ``format``.

    Attributes
    ----------
    before, between
        Text before the input, and between the input and the answer prefix.
    special
        The number of tokens that the tokenizer itself adds around the text.
    chat
        Whether this is a chat template.
    template
        The variables of the chat template besides the messages.
    format
        The format, with ``chat`` True or False.
    turns
        The texts between a user's turn and the assistant's, and between the assistant's and the
        user's next: texts joined by these are a dialogue. None for plain text and for templates
        without such a regular form.
    """

    before: str = ""
    between: str = ""
    special: int = 0
    chat: bool = False
    template: Mapping[str, Any] = field(default_factory=dict, hash=False)
    format: PromptFormat = PromptFormat()
    turns: tuple[str, str] | None = None

    def prefix(self, answer_prefix: str) -> str:
        """Return the answer prefix without a space at the beginning of an assistant's turn."""
        if self.format.answer_prefix == "none":
            return ""
        at_beginning = self.chat and self.format.answer_prefix == "assistant"
        return answer_prefix.lstrip() if at_beginning else answer_prefix

    def after(self, answer_prefix: str) -> str:
        """Return the text after the input."""
        prefix = self.prefix(answer_prefix)
        in_turn = self.format.answer_prefix == "user"
        return prefix + self.between if in_turn else self.between + prefix

    def prompt(self, text: str, answer_prefix: str) -> str:
        """Return the whole text that the model reads."""
        return f"{self.before}{text}{self.after(answer_prefix)}"

    def messages(self, text: str, answer_prefix: str) -> tuple[dict[str, str], ...] | None:
        """Return the prompt as chat messages, or None for plain text.

        Each is ``{"role": ..., "content": ...}``. If the last is the assistant's, the model
        continues it. A dialogue has a message for each turn.
        """
        if not self.chat:
            return None
        system, prefix = self.format.system_prompt, self.prefix(answer_prefix)
        if self.format.answer_prefix == "user":
            return _turns(system, *self.cut(text + prefix))
        return _turns(system, *self.cut(text), prefix)

    def cut(self, text: str) -> list[str]:
        """Return the turns of a dialogue; the first and the last are the user's.

        Any other text is one turn.

        >>> Frame(chat=True, turns=(" [A] ", " [U] ")).cut("Hi. [A] Hello. [U] Who are you?")
        ['Hi.', 'Hello.', 'Who are you?']
        """
        reply, again = self.turns or ("", "")
        exchanges = [piece.split(reply) for piece in text.split(again)] if again else [[text]]
        *pairs, last = exchanges
        if len(last) != 1 or any(len(pair) != 2 for pair in pairs):
            return [text]
        return [turn for exchange in exchanges for turn in exchange]

    @property
    def thinks(self) -> bool:
        """True if the template ends within thinking."""
        return self.chat and ends_thinking(self.between, self.format.thinking_tags)


def _turns(system: str | None, *texts: str) -> tuple[dict[str, str], ...]:
    """Return messages of the system, the user and the assistant in turn, without empty ones."""
    turns = [("system", system), *zip(itertools.cycle(("user", "assistant")), texts)]
    return tuple({"role": role, "content": content} for role, content in turns if content)


def _joins(frame: Frame, tokenizer: Tokenizer) -> tuple[str, str] | None:
    """Return the texts that a chat template puts between turns, see `Frame.turns`."""
    # With a newline inside and characters at both ends, as the texts of turns have them.
    marks = [f"{_MARK}{number}\n{number}{_MARK}" for number in range(7)]
    try:
        text = tokenizer.render(_turns(frame.format.system_prompt, *marks), **frame.template)
    except ParameterError:
        return None
    pieces = re.split("|".join(map(re.escape, marks)), text)
    if len(pieces) <= len(marks):
        return None
    turns = pieces[1], pieces[2]
    regular = pieces == [frame.before, *turns * 3, frame.between]
    # White space alone may occur in any text.
    if not regular or not all(map(str.strip, turns)):
        return None
    joined = text.removeprefix(frame.before).removesuffix(frame.between)
    return turns if replace(frame, turns=turns).cut(joined) == marks else None


def _takes_system(tokenizer: Tokenizer) -> bool:
    """Return whether a chat template repeats a system message; some reject it or drop it."""
    try:
        return tokenizer.render(_turns(_MARK, "x")).count(_MARK) == 1
    except ParameterError:
        return False


def ends_thinking(text: str, tags: Sequence[str] = TAGS, begun: bool = False) -> bool:
    """Return whether a text ends within thinking.

    Parameters
    ----------
    tags
        The tags before and after thinking; without two of them, nothing is thinking.
    begun
        Whether the text begins within thinking.

    Examples
    --------
    >>> ends_thinking("<think>7?</think>No. <think>8"), ends_thinking("7? No", tags=())
    (True, False)
    """
    if len(tags) != 2:
        return False
    begin, end = (text.rfind(tag) for tag in tags)
    return begun if begin == end else begin > end


def split_thinking(
    text: str, tags: Sequence[str] = TAGS, begun: bool = False
) -> tuple[str, str, bool]:
    """Return the thinking in a text, the answer, and whether the text ends within thinking.

    The answer is the text after the last end tag, see `find_answer`.

    Parameters
    ----------
    text
        The generated text.
    tags
        The tags before and after thinking.
    begun
        Whether the prompt ends within thinking.

    Examples
    --------
    Thinking that never ends leaves no answer:

    >>> split_thinking("7? No, 8", begun=True)
    ('7? No, 8', '', True)
    >>> split_thinking("<think>7?</think> 7? No.</think>8")
    ('7? 7? No.', '8', False)
    """
    start, end, unended = find_answer(text, tags, begun)
    answer, thought = text[start:end], text[:start] + text[end:]
    if thought or begun:
        answer = answer.lstrip()
    for tag in tags:
        thought = thought.replace(tag, "")
    return thought.strip(), answer, unended


def find_answer(
    text: str, tags: Sequence[str] = TAGS, begun: bool = False
) -> tuple[int, int, bool]:
    """Return the characters [start, end) of the answer, and whether the text ends within thinking.

    The answer begins after the last end tag, because some models continue to think after the first
    one. It ends before a thought without an end tag. The parameters are those of `split_thinking`.

    >>> find_answer("<think>7?</think>8"), find_answer("8 <think>7?")
    ((17, 18, False), (0, 2, True))
    """
    begin_tag, end_tag = tags
    last = text.rfind(end_tag)
    if begun and last < 0:
        return len(text), len(text), True
    start = last + len(end_tag) if last >= 0 else 0
    end = text.find(begin_tag, start)
    return (start, len(text), False) if end < 0 else (start, end, True)


def find_tag(answer: str) -> str | None:
    """Return the first tag of thinking in an answer, or None.

    >>> find_tag("<reflection>7?</reflection>8"), find_tag("7 < 8 [1]")
    ('<reflection>', None)
    """
    match = _TAG.search(answer)
    return match.group() if match else None


@validated
class Decoding:
    """The settings of decoding: greedy or sampled, once or several times for each question.

    Attributes
    ----------
    temperature
        0: greedy decoding. Above 0, up to 100: tokens are sampled.
    top_p
        The share of probability from which tokens are sampled
        (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").
    seed
        The seed of sampling, 0 to 2**31 - 1. If None, each run has other answers.
    samples
        Answers to each question.
    tokens_to_generate
        Tokens for the answer, without thinking. If None, the number of the dataset: RULER's.

    Raises
    ------
    ParameterError
        If a value is not allowed, or has no effect because decoding is greedy.
    """

    temperature: Annotated[float, Field(ge=0, le=100)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int | None = None
    samples: int = 1
    tokens_to_generate: Annotated[int, Field(ge=1)] | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            whole_number("decoding_seed", self.seed, 0, 2**31 - 1)
        whole_number("samples_per_question", self.samples, 1)
        without = {"top_p": 1, "decoding_seed": None, "samples_per_question": 1}
        values = self.top_p, self.seed, self.samples
        for (name, default), value in zip(without.items(), values, strict=True):
            if self.greedy and value != default:
                allowed = f"{default} if temperature is 0 (greedy decoding)"
                raise ParameterError(name, value, allowed)

    @property
    def greedy(self) -> bool:
        """True for greedy decoding."""
        return self.temperature == 0

    def settings(self) -> str | dict[str, Any]:
        """Return the settings as they are recorded: ``"greedy"``, or values.

        ``tokens_to_generate`` is recorded separately.
        """
        if self.greedy:
            return "greedy"
        sampled = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        return sampled if self.samples == 1 else {**sampled, "samples": self.samples}
