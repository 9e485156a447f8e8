"""Episodes, and answers from memory, as a notebook shows them.

>>> from rulerlib.tasks.episodes import Fact
>>> facts = [Fact(number, f"Fact {number}.", number) for number in range(30)]
>>> probe = Probe("What is fact 7?", ("it",), needs=(7,), kind="what")
>>> episode(Episode("a-0", tuple(facts), (probe,)), probe, most=3)
Fact 0.
Fact 1.
Fact 2.
[… 4 facts …]
Fact 7. ← needed
[… 22 facts …]
<BLANKLINE>
What is fact 7?
Wanted: it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rulerlib.escaping import markup, shortened, spoken
from rulerlib.samples import Prediction
from rulerlib.show import BOX, MARKS, SILENT, WANTED, Html
from rulerlib.tasks.episodes import Episode, Probe

_NEEDED = "needed"


def episode(taught: Episode, probe: Probe, most: int = 12, language: str = "") -> Html:
    """Return what an episode teaches, with the facts that an answer needs marked, and a question.

    Parameters
    ----------
    probe
        One of its questions.
    most
        How many facts are shown beside the needed ones: the first.
    language
        The code of the language that a screen reader reads them in; "": that of the page.
    """
    boxed, lines = [], []
    for text, needed in _shown(taught, probe, most):
        line = f"<mark style='{MARKS['needle']}'>{markup(text)}</mark>" if needed else markup(text)
        boxed.append(line)
        lines.append(f"{text} ← {_NEEDED}" if needed else text)
    wanted = ", ".join(probe.golds)
    spoken_in = f" lang='{markup(language)}'" if language else ""
    return Html(
        f"<div{spoken_in} style='{BOX}'>{chr(10).join(boxed)}\n\n<b>{markup(probe.text)}</b></div>"
        f"<div><mark style='{MARKS['needle']}'>{_NEEDED} for the answer</mark>"
        f" <b>{WANTED}</b> <bdi{spoken_in}>{markup(wanted)}</bdi></div>",
        "\n".join([*lines, "", probe.text, f"{WANTED} {wanted}"]),
    )


def _shown(taught: Episode, probe: Probe, most: int) -> Iterator[tuple[str, bool]]:
    """Yield the texts of facts, and whether they are needed; gaps in the place of the others."""
    left = 0
    for fact in taught.facts:
        needed = fact.number in probe.needs
        if fact.number < most or needed:
            if left:
                yield f"[… {left} facts …]", False
            yield fact.text, needed
            left = 0
        else:
            left += 1
    if left:
        yield f"[… {left} facts …]", False


def answers(given: Iterable[tuple[str, Prediction]]) -> Html:
    """Return what a model was asked and what it said, one box for each memory.

    Parameters
    ----------
    given
        The name of a preset, and the answer.
    """
    boxes, lines = [], []
    for name, record in given:
        prompt, said = shortened(record.input), shortened(record.pred.strip())
        wanted, language = ", ".join(record.outputs), record.others.get("language", "")
        boxes.append(
            f"<div style='{BOX}'><b>{markup(name)}</b>\n{spoken(prompt, language)}\n\n"
            f"<b>said:</b> {spoken(said, language) if said else f'<i>{SILENT}</i>'}"
            f" <b>wanted:</b> {spoken(wanted, language)}</div>"
        )
        lines.append(f"{name}\n{prompt}\n\nsaid: {said or SILENT} wanted: {wanted}")
    return Html("".join(boxes), "\n\n".join(lines))
