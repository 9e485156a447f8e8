"""What a server's reply says, whatever server it is."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rulerlib.errors import ServerError, shortened
from rulerlib.escaping import one_line

# Finish reasons, whichever way a server spells them: "model_length", "MAX_TOKENS", "SAFETY", ...
_LIMIT = re.compile("length|max|limit|window", re.IGNORECASE)
_FILTER = re.compile("filter|safety|recitation|block|prohibited|spii|guardrail", re.IGNORECASE)
_REFUSAL = re.compile("refus", re.IGNORECASE)
_TOOLS = re.compile("tool|function", re.IGNORECASE)


class Reply(NamedTuple):
    """The parts of a server's reply that the engine uses; None if they are missing.

    Attributes
    ----------
    flags
        See `rulerlib.models.FLAGS`.
    """

    text: str
    thinking: str
    reason: str | None
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    flags: tuple[str, ...]

    def finished(self, limit: int) -> bool:
        """Return whether the model ended the answer itself, below the limit of new tokens."""
        if self.reason is None:
            return (self.completion_tokens or 0) < limit
        return not _LIMIT.search(self.reason)


def read_reply(reply: Any) -> Reply:
    """Return the parts of a reply from either endpoint.

    Raises
    ------
    ServerError
        If the reply has no text, or text of a type that cannot be read.
    """
    if not isinstance(reply, dict):
        raise ServerError(
            "The server's answer is not a JSON object; check that base_url ends with /v1."
        )
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or first.get("finish_reason") in ("abort", "error"):
        about = one_line(shortened(reply.get("error") or reply, 200), 200)
        raise ServerError(f"The server sent no answer, but {about}.")
    # Completions have a text, chats a message.
    message = inner(first, "message")
    content = first.get("text") if not message else message.get("content")
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    refusal = message.get("refusal") or ""
    if content is None and not message:
        raise ServerError("The server sent an answer without text.")
    text, more = join_blocks("" if content is None else content)
    thought = join_blocks(thought)[0] + more
    reason, model = first.get("finish_reason"), reply.get("model")
    reason = reason if isinstance(reason, str) else None
    flags = []
    if reason and _FILTER.search(reason):
        flags.append("content_filter")
    if refusal or (reason and _REFUSAL.search(reason)):
        flags.append("refusal")
        text = text or join_blocks(refusal)[0]
    if message.get("tool_calls") or message.get("function_call") or _TOOLS.search(reason or ""):
        flags.append("tool_calls")
    if thought.strip() and not text.strip() and not flags and not _LIMIT.search(reason or "max"):
        flags.append("no_answer")
    usage = inner(reply, "usage")
    cached = inner(usage, "prompt_tokens_details").get("cached_tokens")
    return Reply(
        text,
        thought,
        reason,
        one_line(model, 100) if isinstance(model, str) and model else None,
        counted(usage.get("prompt_tokens")),
        counted(usage.get("completion_tokens")),
        counted(cached),
        tuple(flags),
    )


def join_blocks(content: Any) -> tuple[str, str]:
    """Return the text and the thinking of a message's content: a string or a list of blocks.

    >>> join_blocks([{"type": "thinking", "thinking": "7?"}, {"type": "text", "text": "8"}])
    ('8', '7?')

    Raises
    ------
    ServerError
        If there is content of another type.
    """
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for block in content if isinstance(content, list) else [{"type": type(content).__name__}]:
        block = {"type": "text", "text": block} if isinstance(block, str) else block
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        if kind in ("text", "output_text") and isinstance(block.get("text"), str):
            text += block["text"]
        elif kind == "refusal" and isinstance(block.get("refusal"), str):
            text += block["refusal"]
        elif kind in ("thinking", "reasoning"):
            inside = block.get(kind) or block.get("text") or ""
            thought += join_blocks(inside)[0]
        elif kind != "redacted_thinking":
            raise ServerError(
                f"The server sent content of type {shortened(kind)}, but only text can be scored."
            )
    return text, thought


def inner(values: Any, name: str) -> dict[str, Any]:
    """Return the object under a name of another one, or an empty one."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def counted(value: Any) -> int | None:
    """Return a number of tokens that a server reports, or None if it is no such number.

    >>> [counted(value) for value in (3, 0, 3.0, "3", True, -5, 10**30, None)]
    [3, 0, None, None, None, None, None, None]
    """
    return value if type(value) is int and 0 <= value < 2**31 else None


def same_model(asked: str, replied: str | None) -> bool:
    """Return whether a reply names the model that was asked for, or a dated version of it.

    >>> same_model("gpt-4o", "gpt-4o-2024-08-06"), same_model("gpt-4o", "gpt-4o-mini")
    (True, False)
    """
    if replied is None:
        return True
    names = [name.rstrip("/").rsplit("/", 1)[-1].casefold() for name in (asked, replied)]
    version = r"([-:@](latest|v?\d[\d.-]*))?"
    return re.fullmatch(re.escape(names[0]) + version, names[1]) is not None
