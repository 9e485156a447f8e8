"""The pictures of the chapter on memory, drawn as SVG: the protocol, the presets, three systems.

A page shows one by ``{ruler-drawing} protocol``. It stands in the page itself, so that its lines
have the colour of the text on light and on dark pages, and it says in words what it shows. The
file on its own::

    python -m book.drawings protocol > protocol.svg
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from html import escape

# Widths in units, of which a page has about 720.
WIDTH = 720

# The strokes of accents; book.css gives them a colour for light pages and one for dark ones.
ACCENTS = ("one", "two", "three")


class Drawing:
    """What is drawn so far.

    Parameters
    ----------
    name
        Its name, unique on a page.
    height
        In units.
    title, words
        What it is, and what it shows, for readers who do not see it.
    """

    def __init__(self, name: str, height: int, title: str, words: str) -> None:
        self.name, self.height, self.title, self.words = name, height, title, words
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, wide: float, high: float, lines: str = "", accent: str = ""
    ) -> None:
        """Draw a box with lines of text in its middle."""
        look = f' class="{accent}"' if accent else ""
        self._parts.append(
            f'<rect{look} x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="7"/>'
        )
        self.text(x + wide / 2, y + high / 2, lines)

    def store(self, x: float, y: float, wide: float, high: float, lines: str) -> None:
        """Draw a store: a drum, as databases are drawn."""
        curve, half, side = 8, wide / 2, high - 16
        self._parts.append(
            f'<path d="M{x:g} {y + curve:g} a{half:g} {curve} 0 0 1 {wide:g} 0 v{side:g}'
            f' a{half:g} {curve} 0 0 1 {-wide:g} 0 z"/>'
            f'<path class="line" d="M{x:g} {y + curve:g} a{half:g} {curve} 0 0 0 {wide:g} 0"/>'
        )
        self.text(x + half, y + high / 2 + curve / 2, lines)

    def text(
        self, x: float, y: float, lines: str, size: float = 13, anchor: str = "middle",
        accent: str = "",
    ) -> None:  # fmt: skip
        """Write lines of text around a point; one that begins with a star is bold."""
        each = lines.split("\n") if lines else []
        top = y - (len(each) - 1) * size * 0.62
        look = f' class="{accent}"' if accent else ""
        for number, line in enumerate(each):
            bold = ' font-weight="bold"' if line.startswith("*") else ""
            self._parts.append(
                f'<text{look} x="{x:g}" y="{top + number * size * 1.24 + size * 0.36:g}"'
                f' font-size="{size:g}" text-anchor="{anchor}"{bold}>'
                f"{escape(line.removeprefix('*'))}</text>"
            )

    def arrow(self, *points: tuple[float, float], accent: str = "", dashed: bool = False) -> None:
        """Draw a line from point to point, with an arrowhead at its end."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        look = " ".join(filter(None, ["line", accent, "dashed" if dashed else ""]))
        self._parts.append(f'<path class="{look}" d="M{path}"/>')
        (x, y), (from_x, from_y) = points[-1], points[-2]
        length = max(1e-9, ((x - from_x) ** 2 + (y - from_y) ** 2) ** 0.5)
        along, across = (x - from_x) / length, (y - from_y) / length
        corners = [
            (x - 9 * along + side * 4.5 * across, y - 9 * across - side * 4.5 * along)
            for side in (1, -1)
        ]
        ends = " ".join(f"{a:.1f},{b:.1f}" for a, b in ((x, y), *corners))
        self._parts.append(f'<polygon class="{("head " + accent).strip()}" points="{ends}"/>')

    def line(self, *points: tuple[float, float], accent: str = "", dashed: bool = False) -> None:
        """Draw a line from point to point."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        look = " ".join(filter(None, ["line", accent, "dashed" if dashed else ""]))
        self._parts.append(f'<path class="{look}" d="M{path}"/>')

    def dot(self, x: float, y: float, radius: float, lines: str = "", accent: str = "") -> None:
        """Draw a circle with lines of text in its middle."""
        look = f' class="{accent}"' if accent else ""
        self._parts.append(f'<circle{look} cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')
        self.text(x, y, lines, 12)

    def cells(self, x: float, y: float, row: str, size: float = 11, accent: str = "one") -> None:
        """Draw a row of little cells; those that are marked ``#`` are filled, ``+`` were added."""
        looks = {"#": f"full {accent}", "+": "full one", ".": "empty"}
        for number, mark in enumerate(row):
            self._parts.append(
                f'<rect class="{looks[mark]}" x="{x + number * size:g}" y="{y:g}"'
                f' width="{size:g}" height="{size:g}"/>'
            )

    def svg(self) -> str:
        """Return the drawing as SVG."""
        return "\n".join([
            f'<svg class="ruler-drawing" xmlns="http://www.w3.org/2000/svg" role="img"'
            f' viewBox="0 0 {WIDTH} {self.height}" aria-labelledby="{self.name}-t {self.name}-d">',
            f'<title id="{self.name}-t">{escape(self.title)}</title>',
            f'<desc id="{self.name}-d">{escape(self.words)}</desc>',
            *self._parts,
            "</svg>",
        ])  # fmt: skip


# --- The drawings ----------------------------------------------------------------------------


def protocol() -> Drawing:
    """Draw the two processes and what passes between them."""
    drawing = Drawing(
        "protocol", 265, "Teach, test",
        "Two processes, one after the other. The first teaches the facts of an episode, which a"
        " store on disk keeps. The second opens the store, is"
        " given the question alone, recalls texts, and puts these and the question into the prompt"
        " of the reader, which answers. Only the store passes from one process to the next. Right"
        " answers are seen by the scoring alone.",
    )  # fmt: skip
    for x, words in ((10, "*teach\na process"), (400, "*test\na process")):
        drawing.box(x, 62, 130, 62, words)
    drawing.text(75, 16, "facts, in order", accent="one")
    drawing.arrow((75, 28), (75, 60), accent="one")
    drawing.text(465, 16, "the question alone", accent="two")
    drawing.arrow((465, 28), (465, 60), accent="two")
    drawing.store(190, 178, 160, 66, "store.sqlite\non disk")
    drawing.arrow((75, 126), (75, 212), (188, 212), accent="one")
    drawing.arrow((352, 212), (440, 212), (440, 126), accent="one")
    drawing.arrow((532, 93), (582, 93))
    drawing.text(557, 80, "prompt", 12)
    drawing.box(585, 62, 120, 62, "*the reader\na model")
    drawing.arrow((645, 126), (645, 186))
    drawing.box(585, 188, 120, 50, "answer,\nscored", accent="three")
    drawing.text(515, 213, "right answers", 12, accent="three")
    drawing.arrow((556, 213), (583, 213), accent="three")
    return drawing


def presets() -> Drawing:
    """Draw what stands in the prompt of each preset."""
    drawing = Drawing(
        "presets", 262, "What the reader sees",
        "Prompts as strips of boxes. core and span_short: the question alone. longctx: all facts as"
        " far as there is room, the first ones cut off, then the question. rag and the memories:"
        " the texts that were recalled, here with one of the two needed facts, then the question."
        " oracle: the needed facts and the question.",
    )  # fmt: skip
    rows = (
        ("core, span_short", ""), ("longctx", "..........#..."), ("rag", "..#.."),
        ("memory/…", "#..#."), ("oracle", "##"),
    )  # fmt: skip
    for number, (name, facts) in enumerate(rows):
        y = 14 + number * 46
        drawing.text(150, y + 15, name, anchor="end")
        right = 610
        for place, mark in enumerate(reversed(facts)):
            x = right - 32 * (place + 1)
            drawing.box(x + 2, y, 28, 30, *(("✓", "one") if mark == "#" else ()))
        drawing.box(right + 2, y, 100, 30, "question", accent="two")
    drawing.line((160, 54), (160, 96), dashed=True)
    drawing.text(340, 29, "(no facts)", 12)
    legend = "✓: a fact that the answer needs. The first facts of longctx had no room."
    drawing.text(10, 252, legend, 12, "start")
    return drawing


def hei_nw() -> Drawing:
    """Draw the episodic index: the gate, and sparse keys."""
    drawing = Drawing(
        "hei_nw", 330, "The episodic index, hei_nw",
        "Left, teaching: a fact goes through a gate, which adds up half of its surprise, half of"
        " its novelty, its reward and its pin. Above one half it is written with a sparse key, a"
        " few units of many; else it is kept nowhere. Right, recall: the words of a question excite"
        " some units, and the facts whose keys share most of them are found; a rare unit counts"
        " more than a frequent one.",
    )  # fmt: skip
    drawing.text(150, 16, "*teaching", 14)
    drawing.box(10, 36, 130, 44, "a fact, its marks,\nits surprise", accent="one")
    drawing.arrow((142, 58), (176, 58))
    drawing.box(178, 30, 160, 56, "*gate\n½ surprise + ½ novelty\n+ reward + pin > ½")
    drawing.arrow((218, 88), (218, 132), accent="one")
    drawing.text(212, 110, "yes", 12, "end")
    drawing.arrow((308, 88), (308, 132), dashed=True)
    drawing.text(302, 110, "no", 12, "end")
    drawing.text(308, 144, "kept nowhere", 12)
    drawing.text(10, 154, "its key: 64 units of 2,048", 12, "start")
    rows = (
        "..#...#....#....#..",
        "#...#.....#...#....",
        "..#...#.#....#.....",
        ".#...#...#......#..",
    )
    for number, row in enumerate(rows):
        drawing.cells(10, 172 + number * 24, row)
        drawing.text(228, 178 + number * 24, f"fact {number + 1}", 12, "start")
    drawing.text(10, 290, "and by unit the facts that have it,\nso that few are looked at", 12,
                 "start")  # fmt: skip
    drawing.line((358, 20), (358, 320), dashed=True)
    drawing.text(540, 16, "*recall", 14)
    drawing.box(380, 36, 150, 44, "the question", accent="two")
    drawing.arrow((455, 82), (455, 104))
    drawing.text(380, 116, "excites some units", 12, "start")
    drawing.cells(380, 128, "......#....#.......", accent="two")
    drawing.text(598, 134, "cue", 12, "start")
    drawing.arrow((455, 144), (455, 166))
    drawing.text(380, 178, "finds the facts that share most: fact 1, with both", 12, "start")
    drawing.cells(380, 190, "..#...#....#....#..")
    drawing.text(380, 222, "then fact 3, with one; a rare unit counts more", 12, "start")
    drawing.cells(380, 234, "..#...#.#....#.....")
    return drawing


def sgc_rss() -> Drawing:
    """Draw the semantic store: what is read, and how a question is followed."""
    drawing = Drawing(
        "sgc_rss", 330, "The semantic store, sgc_rss",
        "Left, teaching: a sentence that can be read as a relation between two names becomes an"
        " edge of the graph; another one is a text and no more. Right, recall: Where does"
        " Halwen's teacher live? is followed from Halwen over the relation teacher to Corwin, and"
        " over the relation home to Ely. Other edges are left aside.",
    )  # fmt: skip
    drawing.text(150, 16, "*teaching", 14)
    drawing.box(10, 36, 300, 40, "“Halwen takes lessons from Corwin.”", accent="one")
    drawing.arrow((160, 78), (160, 100))
    drawing.box(70, 102, 180, 40, "can it be read?")
    drawing.arrow((100, 144), (100, 192))
    drawing.text(94, 168, "yes", 12, "end")
    drawing.arrow((220, 144), (250, 276))
    drawing.text(248, 200, "no", 12, "start")
    drawing.box(10, 194, 220, 40, "Halwen – teacher → Corwin")
    drawing.arrow((100, 236), (100, 276))
    drawing.box(40, 278, 120, 34, "an edge", accent="three")
    drawing.box(195, 278, 130, 34, "a text")
    drawing.line((348, 20), (348, 320), dashed=True)
    drawing.text(535, 16, "*recall", 14)
    drawing.box(385, 36, 300, 40, "“Where does Halwen's teacher live?”", accent="two")
    places = {"Halwen": (410, 150), "Corwin": (540, 190), "Ely": (665, 140), "Ulrun": (440, 275),
              "an inn": (590, 285)}  # fmt: skip
    for one, other, words, way in (
        ("Halwen", "Corwin", "teacher", True), ("Corwin", "Ely", "home", True),
        ("Ulrun", "Halwen", "friend", False), ("Ulrun", "Corwin", "pupil", False),
        ("Corwin", "an inn", "owns", False),
    ):  # fmt: skip
        (x, y), (to_x, to_y) = places[one], places[other]
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        a, b = (to_x - x) / length * 31, (to_y - y) / length * 31
        drawing.arrow((x + a, y + b), (to_x - a, to_y - b), accent="two" if way else "",
                      dashed=not way)  # fmt: skip
        shift = (0, -16) if way else (8, 0)
        drawing.text((x + to_x) / 2 + shift[0], (y + to_y) / 2 + shift[1], words, 12,
                     "middle" if way else "start", "two" if way else "")  # fmt: skip
    for name, (x, y) in places.items():
        drawing.dot(x, y, 29, name, "two" if name in ("Halwen", "Corwin", "Ely") else "")
    drawing.arrow((410, 78), (410, 119), accent="two")
    return drawing


def smpd() -> Drawing:
    """Draw the spatial map: walks, the graph of places, and a way that is planned on it."""
    drawing = Drawing(
        "smpd", 300, "The spatial map, smpd",
        "Left: walks are told step by step. Middle: each place that was named is a point of a"
        " graph, and each step that was told an edge; where nobody walked there is none. Right: a"
        " question names a start and a goal, and a search finds the shortest way over the edges:"
        " one step north, three steps east. The plan is put into the prompt as a text.",
    )  # fmt: skip
    drawing.text(100, 16, "*teaching", 14)
    drawing.box(10, 40, 190, 48, "“Corwin went north from\nthe mill to the well.”", accent="one")
    drawing.box(10, 100, 190, 48, "“One step east of the\nwell is the inn.”", accent="one")
    drawing.text(105, 166, "…", 16)
    drawing.arrow((202, 120), (238, 120))
    left, top, step = 262, 62, 58
    drawing.text(left + 1.5 * step, 16, "*the map", 14)
    missing = {(1, 1, "E"), (0, 0, "E"), (2, 2, "N"), (1, 2, "N"), (3, 1, "N")}
    at = [(x, y) for x in range(4) for y in range(4) if (x, y) not in ((1, 0), (3, 3))]

    def point(x: int, y: int) -> tuple[float, float]:
        return left + x * step, top + (3 - y) * step

    for x, y in at:
        for name, (to_x, to_y) in (("E", (x + 1, y)), ("N", (x, y + 1))):
            if (to_x, to_y) in at and (x, y, name) not in missing:
                drawing.line(point(x, y), point(to_x, to_y))
    way = [(0, 1), (0, 2), (1, 2), (2, 2), (3, 2)]
    for one, other in itertools.pairwise(way):
        drawing.line(point(*one), point(*other), accent="two")
    for x, y in at:
        drawing.dot(*point(x, y), 7, accent="two" if (x, y) in way else "")
    drawing.text(point(0, 1)[0] - 12, point(0, 1)[1], "mill", 12, "end")
    drawing.text(point(3, 2)[0] - 8, point(3, 2)[1] - 18, "harbour", 12)
    drawing.text(600, 16, "*recall", 14)
    drawing.box(490, 40, 220, 48, "“How do I get from the mill\nto the harbour?”", accent="two")
    drawing.arrow((600, 90), (600, 124))
    drawing.box(490, 126, 220, 40, "a search over the edges")
    drawing.arrow((600, 168), (600, 202))
    drawing.box(490, 204, 220, 62, "“The shortest way from the\nmill to the harbour is NEEE,\n"
                "4 steps.”", accent="two")  # fmt: skip
    return drawing


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    each.__name__: each for each in (protocol, presets, hei_nw, sgc_rss, smpd)
}
"""All drawings by name."""


if __name__ == "__main__":
    print(DRAWINGS[sys.argv[1]]().svg())
