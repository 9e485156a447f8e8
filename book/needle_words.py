"""The words of the page "Move the needle" that are not those of the playground."""

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
