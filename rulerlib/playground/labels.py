"""What stands on the page of the playground: its labels, its hints and its style sheet.

The page "Move the needle" of the book has the same words.
"""

# What the style sheet of a book or of JupyterLab sets for text is taken over: light or dark.
STYLE = """<style>
.ruler-play { --jp-widgets-label-color: currentColor; --jp-widgets-readout-color: currentColor; }
.ruler-play, .ruler-play .widget-html-content { line-height: 1.5; }
.ruler-play .ruler-prompt { max-height: min(44em, 80vh); overflow: auto; }
.ruler-play .ruler-prompt:focus, .ruler-play button:focus-visible,
.ruler-play .noUi-handle:focus { outline: 3px solid #2563eb; outline-offset: 2px; }
.ruler-play button { min-height: 34px; border-radius: 5px; }
.ruler-play .ruler-grid button { padding: 0 2px; min-height: 30px; line-height: 1.2; }
.ruler-play .ruler-grid .widget-html-content { line-height: 1.2; text-align: center; }
.ruler-play .ruler-say { padding: .5em .8em; border-left: 4px solid #2563eb; background: #8882; }
.ruler-play .ruler-bad { border-left-color: #dc2626; }
.ruler-play .ruler-good { border-left-color: #16a34a; }
.ruler-play h3 { margin: .6em 0 .2em; font-size: 1.05em; }
</style>"""

# ipywidgets gives a slider's handle no name, and a widget made in Python cannot; so the page
# copies each row's label to whatever in it can be reached by keyboard and has no name yet.
NAMES = """<script>(() => {
  const name = () => document.querySelectorAll(
    ".ruler-play [role=slider]:not([aria-label]), .ruler-play .widget-readout:not([aria-label])"
  ).forEach((part) => {
    const row = part.closest(".widget-slider, .jupyter-widgets");
    const label = row && row.querySelector("label, .widget-label");
    if (label && label.textContent.trim()) {
      part.setAttribute("aria-label", label.textContent.trim());
    }
  });
  new MutationObserver(name).observe(document.body, {childList: true, subtree: true});
  name();
})();</script>"""

LABELS = {
    "language": "Language",
    "haystack": "Haystack",
    "length": "Length (tokens)",
    "depth": "Depth (%)",
    "num_needles": "Needles",
    "num_distractors": "Distractors",
    "num_values": "Values of each key",
    "type_needle_k": "Keys",
    "type_needle_v": "Values",
    "needle": "Needle",
    "question": "Question",
    "prefix": "Answer begins",
    "text": "Text",
    "own": "Your own words",
    "ask": "Ask the model",
    "another": "Another needle",
    "stop": "Stop",
    "prompt": "The prompt",
    "found": "Found, by depth and length",
    "not asked": "Not asked yet.",
}
"""What stands on the page's controls and over its parts."""

TIPS = {
    "own": "Show or hide the fields for your own needle, question and text",
    "ask": "Ask the model what the prompt asks",
    "another": "Draw other keys and values, at the same place",
    "stop": "Ask none of those that wait",
}
"""What buttons say beside their labels."""

HINT = (
    "Write your own needle: put <code>{value}</code> where its value stands and"
    " <code>{key}</code> where its key stands, and both are drawn; or put your own value"
    " in braces: <i>The code of the shed is {4711}.</i> What you leave empty is the"
    " language pack's. Your own text is read if the haystack is <i>Your own text</i>."
)
"""How the user's own words are written, as HTML."""

KEY = (
    "Each button asks at its depth and length. It then says how many of the needles that stood"
    " there were found, of how many; grey was not asked. <i>Another needle</i>, and asking again,"
    " makes the numbers larger."
)
"""How the table of depths and lengths is read, as HTML."""

HAYSTACK_NAMES = {
    "essay": "Essays",
    "noise": "One line, again and again",
    "needle": "Other needles",
    "text": "Your own text",
}

TYPE_NAMES = {"numbers": "Numbers", "words": "Pairs of words", "uuids": "UUIDs"}
