"""Chat templates, rendered as `transformers` renders them, without importing it.

>>> render("{% for message in messages %}<{{ message.content }}>{% endfor %}",
...        [{"role": "user", "content": "Hej"}])
'<Hej>'
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rulerlib import packages

DAY = datetime.date(2024, 8, 6)
"""The day on which every chat takes place, in templates that ask for it: any fixed day would do,
and with today's date a run would not be the same tomorrow."""


def render(template: str, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
    """Return the text that a chat template makes of messages.

    Parameters
    ----------
    template
        Its source, in Jinja.
    messages
        Each ``{"role": ..., "content": ...}``.
    variables
        What else the template is given: its special tokens, and settings of its own. Unless they
        say otherwise, the assistant's turn is begun (``add_generation_prompt``).

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

    class Generation(Extension):
        """Marks what the model itself has said; its text stays as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
        sort_keys: bool = False,
    ) -> str:  # fmt: skip
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
            sort_keys=sort_keys,
        )  # fmt: skip

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=DAY.strftime)
    return environment.from_string(template)
