"""The options of an engine, checked before they are written down.

A notebook keeps its parameters, a run its settings, and the name of a folder what changes answers:
no key may be among them, whatever it is called and wherever it stands.

>>> checked("engine_options", {"body": {"headers": {"X-Api-Key": "s3"}}})
Traceback (most recent call last):
rulerlib.errors.ParameterError: engine_options is ['body'], but must be without \
'body.headers.X-Api-Key', which would be written down: set OPENAI_API_KEY (or HF_TOKEN) in the \
environment instead, and delete the notebook if papermill has written one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rulerlib.errors import ParameterError, dictionary

INSTEAD = (
    "which would be written down: set OPENAI_API_KEY (or HF_TOKEN) in the environment instead,"
    " and delete the notebook if papermill has written one"
)
"""What to do with a key, as the end of a sentence."""

# Names of keys, after `_plain`.
_KEY = re.compile(
    r"(^|_)(api_?keys?|access_?keys?|private_?keys?|secrets?|secret_?keys?|client_?secret|pwd"
    r"|pass(word|wd|phrase|code)s?|authori[sz]ation|auth|bearer|credentials?|cookies?|jwt"
    r"|(api|auth|access|bearer|hf|hub)_?tokens?)(_|$)"
)
# And of others that end in "token", but for the special tokens of a vocabulary.
_TOKEN = re.compile(
    r"(^|_)(?<!bos_)(?<!eos_)(?<!pad_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)(?<!stop_)(?<!end_)"
    r"(?<!start_)(?<!image_)token$"
)

# What a key looks like: in a header, an address, a line of JSON or of a shell, or by its beginning.
_LOOKS = re.compile(
    r"""\bbearer\s+[\w.~+/-]{3,} | ^\s*basic\s+(?=\S*[\d=])\S{8,}\s*$
    | ://[^/\s@]*:[^/\s@]+@
    | (api[-_]?key|(access|auth|hf)[-_]?token|authorization|password|secret|[?&](token|key))
      ["']? \s* [:=] \s* ["']? [^\s"'$\\]
    | --(api-key|token|hf-token|password)\s+["']?[^\s"'$\\]
    | \b(sk|rk|hf|gsk|xai|nvapi|glpat|gh[a-z]|github_pat|xox[a-z])[-_](?=\w*\d|[\w-]{24})[\w-]{8,}
    | \bAKIA[0-9A-Z]{12} | \bAIza[\w-]{20} | \beyJ[\w-]{10,}\.[\w-]{10,}""",
    re.IGNORECASE | re.VERBOSE,
)


def checked(parameter: str, options: Any, example: str = '{"dtype": "float32"}') -> dict[str, Any]:
    """Return a copy of options if they are a dictionary without keys.

    Raises
    ------
    ParameterError
        If they are not: says where a key stands, and repeats no value.
    """
    places = [*dict.fromkeys(_keys(options))]
    if not places:
        return dictionary(parameter, options, example)
    if not isinstance(options, Mapping):
        # Half of a dictionary, for example, that nobody could read.
        raise ParameterError(parameter, "***", f"a dictionary such as {example}, without a key")
    names = [hidden(str(name)) for name in options]
    without = ", ".join(f"'{hidden(place)}'" for place in places)
    raise ParameterError(parameter, names, f"without {without}, {INSTEAD}")


def is_key(name: Any, value: Any = "text") -> bool:
    """Return whether a name says that its value is a key.

    >>> is_key("apiKey"), is_key("hf_token", True), is_key("eos_token"), is_key("max_tokens")
    (True, False, False, False)
    """
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "_", str(name)).lower()
    if value is None or isinstance(value, bool):
        return False
    counted = isinstance(value, (int, float))
    return bool(_KEY.search(plain) or (_TOKEN.search(plain) and not counted))


def hidden(text: str) -> str:
    """Return a text with stars for what looks like a key in it."""
    return _LOOKS.sub("***", text)


def _keys(options: Any) -> Iterator[str]:
    """Yield where keys stand, as ``body.headers.Authorization``."""
    waiting, seen = [("", options)], set()
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            if _LOOKS.search(value):
                yield place
        elif isinstance(value, (Mapping, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            pairs = [*value.items()] if isinstance(value, Mapping) else [("", v) for v in value]
            for name, inner in [*pairs, *_headers(value)]:
                inside = f"{place}.{name}".strip(".")
                if is_key(name, inner) or _LOOKS.search(str(name)):
                    yield inside
                else:
                    waiting.append((inside, inner))


def _headers(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a header that is written as a pair, or as a name and a value."""
    if isinstance(value, Mapping):
        value = [value.get("name", value.get("key")), value.get("value")]
    if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str):
        yield value[0], value[1]
