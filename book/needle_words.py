"""Texts of the page "Move the needle" that the playground does not have."""

WORDS = {
    "loading": "Loading the model",
    "asking": "Asking {model} {where}",
    "reading": "Asking {model} {where}: {done} of {of} tokens read",
    "found": "Found {found} of {of}.",
    "series": "{lengths} tokens, {model}, {seconds} s",
    "broken": "It breaks at {length} tokens; the answers up to {last} are right.",
    "at once": "It breaks at {length} tokens, the shortest that was tried.",
    "unbroken": (
        "It does not break: the answers are right at all lengths up to {length} tokens, the longest"
        " of this page. Try another depth, needle or task."
    ),
    "too long": "The prompt is too long for every length of this page.",
    "read": "{read} tokens read{before}.",
    "kept": ", {kept} of them cached from the previous prompt",
    "left": "{share}% of the needle is left in the cache.",
    "cell": "{found} of {of}",
    "not asked": "not asked",
    "compared": "Compare with:",
    "longer": "Your text is longer: its first {read} of {of} sentences fit.",
    "shorter": "Your text is shorter and repeats.",
    "at least": "at least {least}",
    "at most": "at most {most} characters",
    "link copied": "The link is copied.",
    "link not copied": "This browser cannot copy the link; use the address line.",
    "picture copied": "The picture is copied.",
    "picture not copied": ("This browser cannot copy the picture; take a screenshot."),
    "cannot": (
        "The model cannot run here ({reason}). It needs a browser from 2023 or later"
        " (Chromium 91, Firefox 114, Safari 16.4), and files that the site serves itself;"
        " reload the page to try again."
    ),
}
"""Texts of the page, with placeholders."""

LOOKED = {
    "title": "Where it looked",
    "whole": "whole answer",
    "end": "end",
    "pieces": "Pieces of the answer",
    "beginning": "the first token, where heads rest",
    "about": (
        "Attention over the prompt, averaged over all heads and layers; the rest up to 100%"
        " went to the answer itself. Bars leave out the first token."
    ),
}
"""Texts around the strip of attention."""

UNABLE = (
    "This page needs JavaScript to run the bundled model in your browser. You move a needle"
    " through a text of 500 to 4,000 tokens, ask for its number, and see whether the model finds"
    " it. Nothing leaves your machine."
)

STARTING = (
    "If this sentence stays, the model cannot start here. It needs a browser from 2023 or later"
    " and a web server; serve a site that you have built with"
    " <code>python -m http.server --directory _build/html</code>."
)
