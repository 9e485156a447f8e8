"""How far two ways to match an answer differ, on the answers of the model inside.

    python benchmarks/matching.py
    python benchmarks/matching.py --model PATH --lengths 4096 --samples 100 --table mine.csv

Tasks whose answers are values or lists are asked, and each answer is judged by RULER's rule
(a reference counts wherever it stands), by the strict one (all of them), and by whole items; see
`book.matchings.matchings`. The runs resume; the table is the one that the page of results
shows, a row for each language, length and task.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from book.matchings import matchings
from rulerlib import analysis, files, models
from rulerlib.errors import RulerError
from rulerlib.runs import Run

TASKS = (
    "niah_multikey_1", "niah_multikey_2", "niah_multikey_3", "niah_multivalue", "niah_multiquery",
    "vt", "cwe", "fwe",
)  # fmt: skip

TABLE = Path(__file__).resolve().parents[1] / "book" / "results" / "matchings.csv"

# Decimals of a number in the table.
DECIMALS = 6


def measure(
    model: str,
    languages: Sequence[str],
    lengths: Sequence[int],
    samples: int,
    output: str,
    names: Sequence[str] = TASKS,
) -> str:
    """Ask everything that was not asked yet, and return the table as CSV."""
    engine = models.load(model, dtype="float32")
    runs = [
        Run([name], model, language=language, length=length, num_samples=samples, output=output,
            engine_options={"dtype": "float32"}, loaded=engine)
        for length, language, name in itertools.product(sorted(lengths), languages, names)
    ]  # fmt: skip
    fitting = [run for run in runs if _fits(run)]
    for run in fitting:
        run.predict()
    scores = analysis.scores(pair for run in fitting for pair in run.predictions())
    table = matchings(scores).round(DECIMALS)
    return str(table.to_csv(index=False, lineterminator="\n"))


def _fits(run: Run) -> bool:
    """Return whether a task fits its length; where not, say so."""
    try:
        run.check()
    except RulerError as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", default="lille")
    parser.add_argument("--languages", nargs="+", default=["da", "en"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--samples", type=int, default=50, help="of each task at each length")
    parser.add_argument("--output", default="runs/matching", help="the folder of the runs")
    parser.add_argument("--table", type=Path, default=TABLE, help="the file that is written")
    given = parser.parse_args()
    table = measure(given.model, given.languages, given.lengths, given.samples, given.output)
    with files.replacing(given.table) as file:
        file.write(table)
    print(f"The table: {given.table}")


if __name__ == "__main__":
    main()
