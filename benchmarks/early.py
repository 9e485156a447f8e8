"""How many tokens would not be written if an answer ended as soon as its score cannot change.

    python benchmarks/early.py book/results/submitted/*

For each submission, which has all answers: how many, and the share of the tokens written that come
after an answer has all that RULER's score looks for: all references, or in a question about a
document any of them. They are counted as the model's own tokenizer counts the rest of the text.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rulerlib import tokens
from rulerlib.submit.folder import read


def rest(answer: str, references: list[str], any_counts: bool) -> str:
    """Return what comes after all that is looked for; nothing if it is not all there."""
    folded = answer.lower()
    ends = [folded.find(one.lower()) + len(one) for one in references if one.lower() in folded]
    if not ends or (len(ends) < len(references) and not any_counts):
        return ""
    return answer[min(ends) if any_counts else max(ends) :]


def main() -> None:
    """Read the submissions that are named, and print a line for each."""
    for folder in map(Path, sys.argv[1:]):
        submission = read(folder)
        tokenizer = tokens.load(submission.cells[0].cell.model)
        answers, written, spared = 0, 0, 0
        for part in submission.cells:
            any_counts = part.cell.task.startswith("qa_")
            for answer in part.answers:
                answers += 1
                written += answer.others["tokens_generated"]
                after = rest(answer.pred, answer.outputs, any_counts)
                spared += tokenizer.count(after) if after else 0
        print(f"{folder.name}: {answers:,} answers, {spared / written:.0%} of {written:,} tokens")


if __name__ == "__main__":
    main()
