"""How a question becomes the text that a model is fed, and how the model chooses its answer.

A `PromptFormat` holds how questions are put; ``frame`` says, for one tokenizer, what stands around
every question. A `Decoding` holds how tokens are chosen.

>>> from rulerlib.tokens import Words
>>> PromptFormat(answer_prefix="none").frame(Words()).prompt("What is 2 + 2?", " It is")
'What is 2 + 2?'
>>> Decoding(temperature=1, samples=4).settings()
{'temperature': 1, 'top_p': 1.0, 'seed': None, 'samples': 4}
>>> split_thinking("<think>7? No, 8.</think>\\n\\nIt is 8.")
('7? No, 8.', 'It is 8.', False)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import add
from typing import Any, Self

from rulerlib.errors import ParameterError, flag, is_number, one_of, require, whole_number
from rulerlib.tokens import Prompt, Tokenizer

TAGS = ("<think>", "</think>")
"""What most reasoning models put around their thinking."""

# Tags before and after thinking in common formats. Harmony (gpt-oss) has channels, of which "final"
# holds the answer; servers that drop special tokens leave only the names of the channels.
_BEGINNINGS = (
    r"<(?i:(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?))>",
    r"\[THINK\]|<\|begin_of_thought\|>|<\|START_THINKING\|>|◁think▷",
    r"<\|channel\|>(?:analysis|commentary)\b[^<]*<\|message\|>",
    r"\Aanalysis(?=[A-Z])",
)
_ENDS = (
    r"</(?i:(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?))>",
    r"\[/THINK\]|<\|end_of_thought\|>|<\|END_THINKING\|>|◁/think▷",
    r"<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    r"assistantfinal",
)

# Tokens of harmony around its channels.
_HARMONY = re.compile(r"<\|start\|>assistant|<\|(?:end|return)\|>")

# Anything that looks like such a tag, in formats that are not listed above as well.
_TAG = re.compile(
    r"<\|?/?[\w:]*(?i:think|thought|reason|reflect|analysis|channel|scratchpad)\w*\|?>"
    r"|\[/?THINK\w*\]|◁/?think▷"
)

PLACES = ("assistant", "user", "none")
"""Where the answer prefix stands: the beginning of the assistant's turn, which the model continues;
the end of the user's turn; or nowhere."""

# The quotation marks are there for templates that write texts as JSON or HTML does.
_MARK = '\ue000"rulerlib"\ue000'

# What chat templates call the switch of thinking: those of Qwen3, GLM-4.5 and SmolLM3; those of
# DeepSeek-V3.1 and Granite 3.
_SWITCHES = ("enable_thinking", "thinking")


def _texts(values: Any) -> bool:
    """Return whether a value is a list of texts, none of them empty."""
    several = isinstance(values, (list, tuple))
    return several and all(isinstance(value, str) and value for value in values)


@dataclass(frozen=True)
class PromptFormat:
    """How questions are put to a model.

    Attributes
    ----------
    chat
        True for the chat template, False for plain text, None for the template where there is one.
    system_prompt
        The system message before the question; needs a chat template. Where ``chat`` is False it
        is the first paragraph of the plain text.
    answer_prefix
        Where the answer prefix stands, one of `PLACES`. Plain text has no turns, and "user" is
        there what "assistant" is.
    thinking
        Whether the model thinks before it answers, said to its chat template; None: as the
        template has it.
    thinking_tokens
        Room for thinking, in tokens, on top of that for the answer.
    thinking_tags
        The tags before and after thinking. Those of common formats, such as ``[THINK]``,
        ``<thinking>`` and the channels of gpt-oss, are recognized as well.
    stop
        Texts that end an answer.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or beside the others.
    """

    chat: bool | None = None
    system_prompt: str | None = None
    answer_prefix: str = "assistant"
    thinking: bool | None = None
    thinking_tokens: int = 0
    thinking_tags: tuple[str, str] = TAGS
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("chat", "thinking"):
            if getattr(self, name) is not None:
                flag(name, getattr(self, name))
        one_of("answer_prefix", self.answer_prefix, PLACES)
        system, tags, stop = self.system_prompt, self.thinking_tags, self.stop
        given = system is None or (isinstance(system, str) and system.strip())
        require(given, "system_prompt", system, "a text, or None")
        pair = _texts(tags) and all(tag.strip() for tag in tags) and len({*tags}) == len(tags) == 2
        require(pair, "thinking_tags", tags, 'two texts such as ["<think>", "</think>"]')
        require(_texts(stop), "stop", stop, 'a list of texts such as ["\\n"]')
        object.__setattr__(self, "thinking_tags", tuple(tags))
        object.__setattr__(self, "stop", tuple(stop))
        room = whole_number("thinking_tokens", self.thinking_tokens, 0)
        if self.chat is False:
            self._check_plain()
        if self.thinking:
            require(room, "thinking_tokens", 0, "at least 1 where thinking is True")
        if room:
            allowed_values = "0, because thinking is False"
            require(self.thinking is not False, "thinking_tokens", room, allowed_values)
            self._check_prefix("a model that thinks")

    def _check_prefix(self, who: str) -> None:
        """Refuse an answer that begins before a model has thought."""
        allowed_values = (
            f"'user' or 'none', because {who} thinks first and cannot think after its answer has"
            " begun"
        )
        require(
            self.answer_prefix != "assistant", "answer_prefix", self.answer_prefix, allowed_values
        )

    def _check_plain(self) -> None:
        """Refuse what only a chat template can do."""
        # Who asks for plain text gets the system message as text; who does not may expect a system.
        system = () if self.chat is False else (("system_prompt", None),)
        for name, nothing in (*system, ("thinking", None), ("thinking_tokens", 0)):
            value = getattr(self, name)
            require(value == nothing, name, value, f"{nothing}, because no chat template is in use")

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data, as they are recorded."""
        # Not asdict, which takes five times as long: a cell asks for this again and again.
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {"thinking_tags": [*self.thinking_tags], "stop": [*self.stop]}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return the format of recorded settings; what is not among them has its default.

        Raises
        ------
        ParameterError
            If a value cannot work.
        """
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in names})

    def frame(self, tokenizer: Tokenizer) -> Frame:
        """Return what stands around every prompt of a tokenizer's model.

        Raises
        ------
        ParameterError
            If a chat template is asked for and there is none, if there are several and none is the
            default, if it does not repeat what it is given, if it has no switch that turns thinking
            off, or if a model would have to think after its answer has begun.
        MissingExtraError
            If `jinja2`, which renders chat templates, is not installed.
        """
        if self.chat is not False and tokenizer.named_templates:
            names = ", ".join(map(repr, tokenizer.named_templates))
            allowed_values = (
                f"false, because none of the chat templates of '{tokenizer.name}' is named"
                f" 'default': there are {names}"
            )
            raise ParameterError("chat", self.chat, allowed_values)
        has_template = tokenizer.chat_template is not None
        allowed_values = f"false, because the tokenizer '{tokenizer.name}' has no chat template"
        require(has_template or not self.chat, "chat", True, allowed_values)
        if self.chat is False or not has_template:
            self._check_plain()
            before = f"{self.system_prompt}\n\n" if self.system_prompt else ""
            return Frame(before, special=tokenizer.special, format=replace(self, chat=False))
        template = f"the chat template of '{tokenizer.name}'"
        if self.system_prompt is not None:
            allowed_values = f"None, because {template} takes no system message"
            require(_takes_system(tokenizer), "system_prompt", self.system_prompt, allowed_values)
        options = self._switch(tokenizer)
        # The template's special tokens are control tokens; those in the system message are text.
        system = self.system_prompt and tokenizer.mark(self.system_prompt)
        rendered = tokenizer.mark(tokenizer.render(_turns(system, _MARK), **options))
        before, _, between = rendered.partition(_MARK)
        allowed_values = f"false, because {template} does not repeat the user's text once, as it is"
        require(rendered.count(_MARK) == 1, "chat", True, allowed_values)
        format_ = replace(self, chat=True)
        marked = Frame(before, between, chat=True, template=options, format=format_)
        before, between = tokenizer.unmark(before), tokenizer.unmark(between)
        frame = replace(marked, before=before, between=between)
        if frame.thinks:
            self._check_prefix(f"'{tokenizer.name}'")
        if turns := _joins(frame, tokenizer):
            reply, again = map(tokenizer.mark, turns)
            marked = replace(marked, turns=(reply, again))
        return replace(frame, turns=turns, marked=marked)

    def _switch(self, tokenizer: Tokenizer) -> dict[str, bool]:
        """Return what the template must be told so that the model thinks, or does not."""
        if self.thinking is None:
            return {}
        turns = _turns(self.system_prompt, _MARK)
        for name in _SWITCHES:
            # A template ignores what it does not know.
            if tokenizer.render(turns, **{name: True}) != tokenizer.render(turns, **{name: False}):
                return {name: self.thinking}
        # Some models always think, and their templates need no switch.
        template = f"the chat template of '{tokenizer.name}'"
        allowed_values = f"None or True, because {template} cannot switch it off"
        require(self.thinking, "thinking", False, allowed_values)
        return {}


@dataclass(frozen=True)
class Frame:
    """What stands around a prompt when it is fed to a model.

    A base model is fed ``input + answer_prefix``; a chat model is fed its template with the input
    as the user's turn, and the answer prefix where ``format`` says.

    Attributes
    ----------
    before, between
        Text before the input, and between the input and the answer prefix.
    special
        The number of tokens that the tokenizer itself adds around the text.
    chat
        Whether this is a chat template.
    template
        What the chat template was given besides the messages.
    format
        What was asked for, with ``chat`` as it was decided.
    turns
        What stands between a user's turn and the assistant's that follows, and between that one
        and the user's next: texts with these between them are a dialogue. None where it is plain
        text, or the template is not as regular as that.
    marked
        For a chat template, the same frame with its control tokens marked (`Tokenizer.mark`), so
        that special tokens in a text between them are read as text.
    """

    before: str = ""
    between: str = ""
    special: int = 0
    chat: bool = False
    template: Mapping[str, Any] = field(default_factory=dict, hash=False)
    format: PromptFormat = PromptFormat()
    turns: tuple[str, str] | None = None
    marked: Frame | None = field(default=None, repr=False, compare=False)

    def prefix(self, answer_prefix: str) -> str:
        """Return the answer prefix as it is fed: an assistant's turn begins with no space."""
        if self.format.answer_prefix == "none":
            return ""
        at_beginning = self.chat and self.format.answer_prefix == "assistant"
        return answer_prefix.lstrip() if at_beginning else answer_prefix

    def after(self, answer_prefix: str) -> str:
        """Return all that stands after the input."""
        prefix = self.prefix(answer_prefix)
        in_turn = self.format.answer_prefix == "user"
        return prefix + self.between if in_turn else self.between + prefix

    def prompt(self, text: str, answer_prefix: str) -> str:
        """Return the whole text that the model reads."""
        prompt = f"{self.before}{text}{self.after(answer_prefix)}"
        if self.marked is None:
            return prompt
        first, *more = self.cut(text)
        joins = itertools.cycle(self.marked.turns or ())
        text = first + "".join(map(add, joins, more))
        return Prompt(prompt, self.marked.prompt(text, answer_prefix))

    def messages(self, text: str, answer_prefix: str) -> tuple[dict[str, str], ...] | None:
        """Return the prompt as chat messages; None where the model is fed plain text.

        Each is ``{"role": ..., "content": ...}``. Where the last is the assistant's, the model
        continues it. A dialogue becomes as many as it has turns.
        """
        if not self.chat:
            return None
        system, prefix = self.format.system_prompt, self.prefix(answer_prefix)
        if self.format.answer_prefix == "user":
            return _turns(system, *self.cut(text + prefix))
        return _turns(system, *self.cut(text), prefix)

    def cut(self, text: str) -> list[str]:
        """Return the turns of a dialogue, of which the first and the last are the user's.

        A text that is no dialogue is one turn.

        >>> Frame(chat=True, turns=(" [A] ", " [U] ")).cut("Hi. [A] Hello. [U] Who are you?")
        ['Hi.', 'Hello.', 'Who are you?']
        """
        reply, again = self.turns or ("", "")
        exchanges = [piece.split(reply) for piece in text.split(again)] if again else [[text]]
        if [*map(len, exchanges)] != [2] * (len(exchanges) - 1) + [1]:
            return [text]
        return [turn for exchange in exchanges for turn in exchange]

    @property
    def thinks(self) -> bool:
        """Whether a prompt ends within thinking, because the template has begun it."""
        return self.chat and ends_thinking(self.between, self.format.thinking_tags)

    def split(self, text: str) -> tuple[str, str, bool]:
        """Return what a model thought, what it answered, and whether it was still thinking.

        >>> Frame(chat=True).split("<think>7? No, 8.</think>\\n\\nIt is 8.")
        ('7? No, 8.', 'It is 8.', False)
        """
        if not self.chat:
            return "", text, False
        return split_thinking(text, self.format.thinking_tags, self.thinks)


def _turns(system: str | None, *texts: str) -> tuple[dict[str, str], ...]:
    """Return messages: the system's, and the user's and the assistant's in turn; none is empty."""
    turns = [("system", system), *zip(itertools.cycle(("user", "assistant")), texts)]
    return tuple({"role": role, "content": content} for role, content in turns if content)


def _joins(frame: Frame, tokenizer: Tokenizer) -> tuple[str, str] | None:
    """Return what a chat template puts between two turns, see `Frame.turns`."""
    # With an end of a line within, and with letters at both ends, as the texts of turns have them.
    marks = [f"{_MARK}{number}\n{number}{_MARK}" for number in range(7)]
    try:
        text = tokenizer.render(_turns(frame.format.system_prompt, *marks), **frame.template)
    except ParameterError:
        return None
    first, second, third = (text.find(mark) for mark in marks[:3])
    turns = text[first + len(marks[0]) : second], text[second + len(marks[1]) : third]
    # Where they are no more than white space, any text might hold them.
    if not all(map(str.strip, turns)):
        return None
    joins = [*turns] * (len(marks) // 2)
    joined = "".join(map(add, marks, [*joins, ""]))
    regular = text == frame.before + joined + frame.between
    return turns if regular and replace(frame, turns=turns).cut(joined) == marks else None


def _takes_system(tokenizer: Tokenizer) -> bool:
    """Return whether a chat template repeats a system message; some refuse it or drop it."""
    try:
        return tokenizer.render(_turns(_MARK, "x")).count(_MARK) == 1
    except ParameterError:
        return False


def ends_thinking(text: str, tags: Sequence[str] = TAGS, begun: bool = False) -> bool:
    """Return whether a text ends within thinking.

    Parameters
    ----------
    tags
        What stands before and after thinking; unless there are two, nothing is thinking.
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
    text: str, tags: tuple[str, str] = TAGS, begun: bool = False
) -> tuple[str, str, bool]:
    """Return the thinking in a text, the answer, and whether the text ends within thinking.

    The answer is what follows the last end tag, see `find_answer`.

    Parameters
    ----------
    text
        What the model generated.
    tags
        The tags before and after thinking; those of other common formats are recognized as well.
    begun
        Whether the prompt has already begun the thinking.

    Examples
    --------
    Thinking that never ends leaves no answer:

    >>> split_thinking("7? No, 8", begun=True)
    ('7? No, 8', '', True)
    >>> split_thinking("<think>7?</think> 7? No.</think>8")
    ('7? 7? No.', '8', False)
    """
    start, end, unended = find_answer(text, tags, begun)
    answer, rest = text[start:end], text[:start] + text[end:]
    beginning, ending = _patterns(tags)
    thought = re.sub(f"{beginning}|{ending}", "", rest)
    if rest or begun:
        answer = answer.lstrip()
    return _HARMONY.sub("", thought).strip(), _HARMONY.sub("", answer), unended


def find_answer(
    text: str, tags: tuple[str, str] = TAGS, begun: bool = False
) -> tuple[int, int, bool]:
    """Return the characters [start, end) of the answer, and whether the text ends within thinking.

    The answer begins after the last end tag, because some models go on thinking after the first.
    It ends where thinking begins that has no end tag. The parameters are those of `split_thinking`.

    >>> find_answer("<think>7?</think>8"), find_answer("8 [THINK]7?")
    ((17, 18, False), (0, 2, True))
    """
    beginning, ending = _patterns(tags)
    start = max((match.end() for match in re.finditer(ending, text)), default=0)
    if begun and not start:
        return len(text), len(text), True
    unended = re.search(beginning, text[start:])
    end = start + unended.start() if unended else len(text)
    return start, end, unended is not None


def _patterns(tags: tuple[str, str]) -> tuple[str, str]:
    """Return regular expressions of all tags that begin thinking, and of all that end it."""
    begin, end = map(re.escape, tags)
    return "|".join((begin, *_BEGINNINGS)), "|".join((end, *_ENDS))


def find_tag(answer: str) -> str | None:
    """Return the first tag of thinking in an answer, or None.

    >>> find_tag("<reflection>7?</reflection>8"), find_tag("7 < 8 [1]")
    ('<reflection>', None)
    """
    match = _TAG.search(answer)
    return match.group() if match else None


@dataclass(frozen=True)
class Decoding:
    """A way to choose tokens: greedy, or drawn, once or several times for each question.

    Attributes
    ----------
    temperature
        0: the most likely token each time (greedy). Above 0, up to 100: drawn from the model's
        probabilities, which are flatter the higher it is.
    top_p
        Only the most likely tokens that together have this probability are drawn from
        (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").
    seed
        The seed of the drawing, 0 to 2**31 - 1; None: another one each time, so that a run
        cannot be repeated.
    samples
        Answers that are drawn for each question.
    tokens_to_generate
        Room for the answer, in tokens, thinking not included; None: as the questions were made
        for, which is RULER's number for the task.

    Raises
    ------
    ParameterError
        If a value cannot work, or is set where decoding is greedy and would change nothing.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    samples: int = 1
    tokens_to_generate: int | None = None

    def __post_init__(self) -> None:
        heat, top_p = self.temperature, self.top_p
        allowed_values = "a number from 0 (greedy) to 100"
        require(is_number(heat) and 0 <= heat <= 100, "temperature", heat, allowed_values)
        allowed_values = "a number above 0 and at most 1"
        require(is_number(top_p) and 0 < top_p <= 1, "top_p", top_p, allowed_values)
        if self.seed is not None:
            whole_number("decoding_seed", self.seed, 0, 2**31 - 1)
        whole_number("samples_per_question", self.samples, 1)
        if self.tokens_to_generate is not None:
            whole_number("tokens_to_generate", self.tokens_to_generate, 1)
        if self.greedy:
            require(top_p == 1, "top_p", top_p, "1 where temperature is 0 (greedy)")
            allowed_values = "None where temperature is 0 (greedy)"
            require(self.seed is None, "decoding_seed", self.seed, allowed_values)
            allowed_values = "1 where temperature is 0 (greedy), which says the same each time"
            require(self.samples == 1, "samples_per_question", self.samples, allowed_values)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken each time."""
        return self.temperature == 0

    def settings(self) -> str | dict[str, Any]:
        """Return how tokens are chosen, as it is written beside an answer: ``"greedy"``, or values.

        The room for the answer is written by itself, as ``tokens_to_generate``.
        """
        if self.greedy:
            return "greedy"
        drawn = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        return drawn if self.samples == 1 else {**drawn, "samples": self.samples}
