"""The words of the page "Move the needle", in English and in Danish.

The page's controls are written in English, and what changes on them comes from ``page.en.json``.
A switch on the page puts what `DANISH` has in the place of each text; a text that it lacks stops
the build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from typing import Any

from rulerlib import languages
from rulerlib.errors import MUST, DataError
from rulerlib.playground.setting import TEXTS
from rulerlib.texts import CONTROL

LABELS, RULES = TEXTS["labels"], TEXTS["rules"]

WORDS = {
    "loading": "Loading the model",
    "asking": "Asking {model} {where}",
    "reading": "Asking {model} {where}: {done} of {of} tokens read",
    "found": "Found {found} of {of}.",
    "series": "{lengths} tokens, {model}, {seconds} s",
    "broken": "It breaks at {length} tokens: right up to {last}, and then no longer.",
    "at once": "It breaks at {length} tokens, the shortest that was tried.",
    "unbroken": (
        "It does not break: right at all lengths up to {length} tokens, the longest of this page."
        " Another depth, another needle or another task may do it."
    ),
    "too long": "The prompt is too long for every length of this page.",
    "read": "{read} tokens read{before}.",
    "kept": ", {kept} of them kept from the prompt before",
    "left": "Of the needle, {share} % is left in the cache.",
    "cell": "{found} of {of}",
    "not asked": "not asked",
    "compared": "To compare with:",
    "longer": "Your text is longer: its first {read} of {of} sentences fit.",
    "shorter": "Your text is shorter, and begins again after its end.",
    "at least": "at least {least}",
    "at most": "at most {most} characters",
    "link copied": "The link is copied.",
    "link not copied": "This browser copies no link; the address line has it.",
    "picture copied": "The picture is copied.",
    "picture not copied": (
        "This browser copies no picture; a picture of the screen shows the same."
    ),
    "cannot": (
        "The model cannot run here ({reason}). It needs a browser from 2023 or later"
        " (Chromium 91, Firefox 114, Safari 16.4), and files that the site serves itself;"
        " reload the page to try again."
    ),
}
"""What the page says, with the names that it fills in."""

LOOKED = {
    "title": "Where it looked",
    "whole": "whole answer",
    "end": "end",
    "pieces": "Pieces of the answer",
    "beginning": "the first token, where heads rest",
    "about": (
        "Attention over the prompt, the mean of all heads of all layers; what is missing to 100 %"
        " went to the answer itself. Bars leave out the first token."
    ),
}
"""What stands over and under the strip of attention."""

UNABLE = (
    "With JavaScript, the model inside would run here, in your browser: you move a needle through"
    " a text of 500 to 4,000 tokens with a slider, ask for its number, and see whether the model"
    " finds it, at one depth or at all of them, in Danish or in English, with a needle and a text"
    " of your own if you like. Nothing that you write would leave your machine."
)

STARTING = (
    "If this sentence stays, the model cannot start here. It needs a browser from 2023 or later,"
    " and a page that comes from a web server: a site that you have built opens with"
    " <code>python -m http.server --directory _build/html</code>."
)

TONGUES = {"en": "English", "da": "Dansk"}
"""The languages that the controls speak."""

HINTS = {
    "en": TEXTS["hint"],
    "da": (
        "Skriv din egen nål: sæt <code>{value}</code>, hvor dens værdi skal stå, og"
        " <code>{key}</code>, hvor dens nøgle skal stå, så bliver begge trukket; eller sæt din egen"
        " værdi i krøllede parenteser: <i>Koden til skuret er {4711}.</i> Hvad du lader stå tomt,"
        " er sprogpakkens. Din egen tekst bliver læst, hvis høstakken er <i>Din egen tekst</i>."
    ),
}
"""How the reader's own words are written, as HTML."""

SPOKEN = ("labels", "parts", "verdicts", "rules", "where", "must", "control", "wanted", "silent",
          "looked", "words")  # fmt: skip
"""The parts of ``page.en.json`` that are words."""

DANISH = {
    # The controls.
    "Controls speak": "Knapperne taler",
    "Language": "Sprog",
    "Haystack": "Høstak",
    "Length (tokens)": "Længde (tokens)",
    "Depth (%)": "Dybde (%)",
    "Needles": "Nåle",
    "Distractors": "Vildledere",
    "Values of each key": "Værdier for hver nøgle",
    "Keys": "Nøgler",
    "Values": "Værdier",
    "Needle": "Nål",
    "Question": "Spørgsmål",
    "Answer begins": "Svaret begynder",
    "Text": "Tekst",
    "Your own words": "Dine egne ord",
    "Ask the model": "Spørg modellen",
    "(loads {size})": "(henter {size})",
    "Another needle": "En anden nål",
    "Stop": "Stop",
    "The prompt": "Prompten",
    "Found, by depth and length": "Fundet, efter dybde og længde",
    "Not asked yet.": "Ikke spurgt endnu.",
    "Show or hide the fields for your own needle, question and text": (
        "Vis eller skjul felterne til din egen nål, dit eget spørgsmål og din egen tekst"
    ),
    "Ask the model what the prompt asks": "Spørg modellen om det, som prompten spørger om",
    "Draw other keys and values, at the same place": (
        "Træk andre nøgler og værdier, på det samme sted"
    ),
    "Ask none of those that wait": "Spørg ikke om dem, der venter",
    "Where it breaks": "Hvor det brister",
    "Ask at longer and longer lengths, until the answer is wrong; not for one needle alone": (
        "Spørg ved større og større længder, indtil svaret er forkert; ikke om én nål alene"
    ),
    "Try all depths": "Prøv alle dybder",
    "Ask at ten depths, at this length": "Spørg ved ti dybder, ved denne længde",
    "All depths and lengths": "Alle dybder og længder",
    "Ask at ten depths and four lengths": "Spørg ved ti dybder og fire længder",
    "Compare": "Sammenlign",
    "Keep this answer beside the next ones": "Lad dette svar stå ved siden af de næste",
    "Copy link": "Kopiér link",
    "Copy an address that opens the page at this setting": (
        "Kopiér en adresse, der åbner siden med denne indstilling"
    ),
    "Copy picture": "Kopiér billede",
    "Copy a picture of the answer and of the table": "Kopiér et billede af svaret og tabellen",
    "Loading": "Indlæser",
    "tokens": "tokens",
    "Task": "Opgave",
    "Key and value": "Nøgle og værdi",
    "One needle": "Én nål",
    "Four keys, one is asked for": "Fire nøgler, der spørges om én",
    "Four keys, all are asked for": "Fire nøgler, der spørges om alle",
    "Four values of one key": "Fire værdier af én nøgle",
    "A haystack of needles": "En høstak af nåle",
    "A chain of variables": "En kæde af variable",
    "Words, and a number": "Ord, og et tal",
    "UUIDs, both of them": "UUID'er, begge to",
    "Cache in": "Cachen i",
    "32 bits": "32 bit",
    "8 bits": "8 bit",
    "4 bits": "4 bit",
    "Dropped from the cache": "Slettet fra cachen",
    "nothing": "intet",
    **{f"the oldest {share} %": f"de ældste {share} %" for share in (25, 50, 75, 90)},
    **{f"the least attended {share} %": f"de mindst læste {share} %" for share in (25, 50, 75, 90)},
    "Essays": "Essays",
    "One line, again and again": "Den samme linje igen og igen",
    "Other needles": "Andre nåle",
    "Your own text": "Din egen tekst",
    # Parts of a prompt.
    "chat template and special tokens": "chatskabelon og særlige tokens",
    "instruction": "vejledning",
    "haystack": "høstak",
    "needle": "nål",
    "distractor": "vildleder",
    "question": "spørgsmål",
    "beginning of the answer": "svarets begyndelse",
    "room for the answer": "plads til svaret",
    "left over": "til overs",
    # Answers.
    "Right": "Rigtigt",
    "Right, all {n} values": "Rigtigt, alle {n} værdier",
    "Partly right, {found} of {n} values": "Delvis rigtigt, {found} af {n} værdier",
    "Wrong, and part of it comes from a distractor": (
        "Forkert, og noget af det kommer fra en vildleder"
    ),
    "Wrong": "Forkert",
    "; cut off at the end of its room.": "; afbrudt, hvor pladsen slap op.",
    ", but it repeats itself and does not stop.": ", men det gentager sig selv og stopper ikke.",
    "at depth {depth} %, {length} tokens": "ved dybde {depth} %, {length} tokens",
    "Wanted:": "Ønsket:",
    "It said nothing.": "Den sagde ingenting.",
    "Where it looked": "Hvor den så hen",
    "whole answer": "hele svaret",
    "end": "slut",
    "Pieces of the answer": "Svarets stykker",
    "the first token, where heads rest": "det første token, hvor hoveder hviler",
    LOOKED["about"]: (
        "Opmærksomhed over prompten, middel af alle hoveder i alle lag; hvad der mangler i 100 %,"
        " gik til svaret selv. Søjlerne udelader det første token."
    ),
    WORDS["loading"]: "Indlæser modellen",
    WORDS["asking"]: "Spørger {model} {where}",
    WORDS["reading"]: "Spørger {model} {where}: {done} af {of} tokens læst",
    WORDS["found"]: "Fandt {found} af {of}.",
    WORDS["series"]: "{lengths} tokens, {model}, {seconds} s",
    WORDS["broken"]: "Det brister ved {length} tokens: rigtigt til og med {last}, og så ikke mere.",
    WORDS["at once"]: "Det brister ved {length} tokens, den korteste længde, der blev prøvet.",
    WORDS["unbroken"]: (
        "Det brister ikke: rigtigt ved alle længder til og med {length} tokens, sidens længste."
        " En anden dybde, en anden nål eller en anden opgave kan gøre udslaget."
    ),
    WORDS["too long"]: "Prompten er for lang til alle længder på denne side.",
    WORDS["read"]: "{read} tokens læst{before}.",
    WORDS["kept"]: ", {kept} af dem beholdt fra prompten før",
    WORDS["left"]: "Af nålen er {share} % tilbage i cachen.",
    WORDS["cell"]: "{found} af {of}",
    WORDS["not asked"]: "ikke spurgt",
    WORDS["compared"]: "Til sammenligning:",
    WORDS["longer"]: "Din tekst er længere: dens første {read} af {of} sætninger er med.",
    WORDS["shorter"]: "Din tekst er kortere og begynder forfra, hvor den slutter.",
    WORDS["at least"]: "mindst {least}",
    WORDS["at most"]: "højst {most} tegn",
    WORDS["link copied"]: "Linket er kopieret.",
    WORDS["link not copied"]: "Denne browser kopierer intet link; det står i adresselinjen.",
    WORDS["picture copied"]: "Billedet er kopieret.",
    WORDS["picture not copied"]: (
        "Denne browser kopierer intet billede; et skærmbillede viser det samme."
    ),
    WORDS["cannot"]: (
        "Modellen kan ikke køre her ({reason}). Den kræver en browser fra 2023 eller senere"
        " (Chromium 91, Firefox 114, Safari 16.4) og filer, som siden selv leverer;"
        " genindlæs siden for at prøve igen."
    ),
    # Mistakes.
    MUST: "{parameter} er {value}, men skal være {allowed}.",
    CONTROL: "{name}: styretegn U+{code} ved tegn {place}.",
    RULES["needle"]: (
        "en sætning med én værdi i krøllede parenteser: {value}, så bliver den trukket, eller din"
        " egen, for eksempel {4711}"
    ),
    RULES["several"]: (
        "en sætning med {key} og {value}, for der er flere nåle, og de skal være forskellige"
    ),
    RULES["asked"]: "dit eget spørgsmål, for din nål har ingen {key} at spørge om",
    RULES["question"]: "et spørgsmål med {key}, for der er flere nåle at vælge imellem",
    RULES["value"]: "en værdi, der ikke allerede står i høstakken",
    RULES["text"]: "nogle sætninger af dine egne, til at fylde høstakken med",
}
"""What stands in Danish in the place of an English text."""


class _Texts(HTMLParser):
    """Collects the texts of a form, and those of its attributes that are read out.

    What stands in ``data-tongue`` is in one language alone, and has the other one beside it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, None] = {}
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("title", "aria-label") and value:
                self.found[value] = None
        if self._within or "data-tongue" in dict(attrs):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._within:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._within:
            self.found[data.strip()] = None


def loads(size: str, words: Mapping[str, str] | None = None) -> str:
    """Return what stands on the button that first loads the model, in English or by ``words``."""
    ask, load = LABELS["ask"], "(loads {size})"
    if words is not None:
        ask, load = words[ask], words[load]
    return f"{ask} {load.format(size=size)}"


def translated(page: dict[str, Any], form: Iterable[str], size: str) -> dict[str, Any]:
    """Return ``page.en.json`` in Danish; ``controls`` then has the words of the form as well.

    Parameters
    ----------
    page
        What ``page.en.json`` holds.
    form
        The form that the controls stand in, as HTML.
    size
        What the first question loads, as text.

    Raises
    ------
    DataError
        If a text has no Danish.
    """
    parser = _Texts()
    parser.feed("".join(form))
    names = {language.name for language in map(languages.load, languages.available())}
    known = {
        **DANISH,
        **dict.fromkeys(names | {*TONGUES.values()}),
        loads(size): loads(size.replace(".", ","), DANISH),
    }
    lacking: list[str] = []

    def spoken(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: spoken(one) for name, one in value.items()}
        if value not in known and any(letter.isalpha() for letter in value):
            lacking.append(value)
        return known.get(value) or value

    made = {name: spoken(value) if name in SPOKEN else value for name, value in page.items()}
    made["controls"] = {text: spoken(text) for text in parser.found}
    if lacking:
        raise DataError(f"book/needle_words.py has no Danish for: {'; '.join(lacking)}")
    return made
