"""Reading the reply of a server with OpenAI's protocol."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rulerlib.errors import ServerError, shortened
from rulerlib.escaping import one_line

# Finish reasons in the spelling of any server: "model_length", "MAX_TOKENS", "SAFETY", ...
LIMIT = re.compile("length|max|limit|window", re.IGNORECASE)
# Those that are recorded as flags. A message may also say so in a field of the flag's name.
FLAGGED = {
    "content_filter": "filter|safety|recitation|block|prohibited|spii|guardrail",
    "refusal": "refus",
    "tool_calls": "tool|function",
}


class Reply(NamedTuple):
    """The parts of a server's reply that the engine uses; counts are None if they are missing.

    Attributes
    ----------
    finished
        Whether the model ended the answer itself, below the limit of new tokens.
    flags
        See `rulerlib.models.FLAGS`.
    """

    text: str
    thinking: str
    finished: bool
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    flags: list[str]


def read_reply(reply: Any, limit: int) -> Reply:
    """Return the parts of a reply from either endpoint, given the limit of new tokens.

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
    # The endpoint of completions returns a text, that of chats a message.
    message, usage = inner(first, "message"), inner(reply, "usage")
    content = message.get("content") if message else first.get("text")
    if content is None and not message:
        raise ServerError("The server sent an answer without text.")
    text, more = join_blocks(content)
    thinking = join_blocks(message.get("reasoning_content") or message.get("reasoning"))[0] + more
    text = text or join_blocks(message.get("refusal"))[0]
    written, reason = counted(usage.get("completion_tokens")), str(first.get("finish_reason") or "")
    finished = not LIMIT.search(reason) if reason else (written or 0) < limit
    flags = [
        name
        for name, pattern in FLAGGED.items()
        if message.get(name) or re.search(pattern, reason, re.IGNORECASE)
    ]
    if thinking.strip() and not text.strip() and not flags and reason and finished:
        flags.append("no_answer")
    return Reply(
        text,
        thinking,
        finished,
        one_line(reply["model"], 100) if isinstance(reply.get("model"), str) else None,
        counted(usage.get("prompt_tokens")),
        written,
        counted(inner(usage, "prompt_tokens_details").get("cached_tokens")),
        flags,
    )


def join_blocks(content: Any) -> tuple[str, str]:
    """Return the text and the thinking of a message's content: a string, None or a list of blocks.

    >>> join_blocks([{"type": "thinking", "thinking": "7?"}, {"type": "text", "text": "8"}])
    ('8', '7?')

    Raises
    ------
    ServerError
        If there is content of another type.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    text = thinking = ""
    for block in content if isinstance(content, list) else [content]:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            text += block
        elif kind in ("text", "output_text", "refusal"):
            text += str(block.get("text") or block.get("refusal") or "")
        elif kind in ("thinking", "reasoning"):
            thinking += join_blocks(block.get(kind) or block.get("text"))[0]
        elif kind != "redacted_thinking":
            kind = shortened(kind or type(block).__name__)
            raise ServerError(
                f"The server sent content of type {kind}, but only text can be scored."
            )
    return text, thinking


def inner(values: Any, name: str) -> dict[str, Any]:
    """Return the dictionary under a name in another one, or an empty one."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def counted(value: Any) -> int | None:
    """Return a number of tokens that a server reports, or None if it is not a valid number.

    >>> [counted(value) for value in (3, 0, 3.0, "3", True, -5, 10**30, None)]
    [3, 0, None, None, None, None, None, None]
    """
    return value if type(value) is int and 0 <= value < 2**31 else None


def same_model(asked: str, replied: str | None) -> bool:
    """Return whether a reply names the model that was asked, or a dated version of it.

    >>> same_model("gpt-4o", "gpt-4o-2024-08-06"), same_model("gpt-4o", "gpt-4o-mini")
    (True, False)
    """
    if not replied:
        return True
    names = [name.rstrip("/").rsplit("/", 1)[-1].casefold() for name in (asked, replied)]
    version = r"([-:@](latest|v?\d[\d.-]*))?"
    return re.fullmatch(re.escape(names[0]) + version, names[1]) is not None
