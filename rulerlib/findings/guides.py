"""How each figure is read, for one who sees its like for the first time."""

_CLEAR = (
    "Two means are called clearly different where their intervals do not overlap: that is rarely"
    " chance, even where one has looked at several."
)

GUIDES = {
    "curves": (
        "Each line is a task, each mark the mean over the answers at one length; lengths double"
        " from tick to tick. The band around a line is the 95 % interval: with few answers it is"
        f" wide, because few answers say little. {_CLEAR}"
    ),
    "models": (
        "Each line is a model, each mark its average over all tasks at one length; the band is the"
        " 95 % interval. A line that crosses the threshold within its band has not crossed it for"
        f" certain. {_CLEAR}"
    ),
    "heatmap": (
        "From top to bottom what is asked for moves from the start of the text to its end; from"
        " left to right the text grows. The number in a cell is its n; grey cells were not"
        " measured. A cell with an n of 1 can only be right or wrong: look at rows, columns and"
        " corners. plots.heatmap(table, colours='red-green') draws it in red and green."
    ),
    "study": (
        "A setting's name says what is set for it; all else that can be set is the same in its"
        " panel. Another task or operation asks other questions, which may be harder by themselves."
        " Bars and bands are 95 % intervals; settings on the same line do what the others do."
        f" {_CLEAR}"
    ),
    "errors": (
        "Each bar is a length, as high as the share of wrong answers there; its parts are the"
        " kinds of mistakes. What is missing to the top was right. The kinds are told from the"
        " answer and the prompt alone; no second model judges them."
    ),
    "effective": (
        "Each row is a model. The dot is the longest length that passes, the bar its 95 %"
        " interval. An arrow to the right says that nothing longer was asked. A dot left of a"
        " length failed there already; with an arrow to the left it has no average at a shorter"
        " one."
    ),
    "frequencies": (
        "Each mark is a word: the further right, the rarer; the higher, the more often it stands"
        " there. Both axes are logarithmic. What matters is the gap between the words that are"
        " asked for and the next ones."
    ),
    "correlation": (
        "Each cell is how two tasks move together over models and lengths: 1 always together, 0"
        " not at all, -1 always against each other. The tree joins first what is most alike."
    ),
    "facts": (
        "Each mark is a model. Models differ in many things at once, so a slope is not a cause."
    ),
    "matrix": (
        "Each dot is a preset's share of right answers in a suite, the bar its 95 % interval. A"
        " preset whose bar does not lie beyond the grey lines has not been shown to remember; the"
        " green line is what the model does with the facts before it."
    ),
    "stores": (
        "Each bar is all questions of a suite. Blue was right, orange lost by the model, yellow by"
        " want of room in the prompt, grey by the memory."
    ),
    "capacity": (
        "From left to right more is taught, from point to point a multiple. Left, what was"
        " answered; right, what the store found, which needs no model. Bars are 95 % intervals."
        f" {_CLEAR}"
    ),
    "places": (
        "A line is a way that can be walked in both directions; the arrows are one right way."
    ),
    "links": (
        "Each arrow is one sentence, from what it speaks of to what it says of it. The thick ones"
        " are the chain that is asked for, in the order of their numbers."
    ),
}
"""How to read each figure of `rulerlib.plots`, by the name of its function."""
