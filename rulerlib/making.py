"""Questions by the folder: written to disk, and if need be in secret, with a proof for later.

    rulerlib make niah_single_2,vt secret --length 4096,8192 --language da --commit

``--commit`` draws a seed that nobody can guess, and prints a hash of it, of the tasks and of every
question. Whoever publishes the hash before a model is asked, and the seed afterwards, lets others
make the same questions and compare: ``rulerlib check --reveal SEED secret/commitment.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import commands, files, tasks, tokens
from rulerlib import languages as packs
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, dictionary, one_of, require
from rulerlib.fields import check, settings, values_of
from rulerlib.prompts import PromptFormat
from rulerlib.samples import read_object
from rulerlib.store import questions

COMMITMENT = "commitment.json"
"""The file that is published before a model is asked; it does not hold the seed."""

SEED_BITS = 63
"""Of a seed that is drawn: as many as a seed can have."""

_OPTIONS = [item.name for item in fields(Dataset)][4:]

# What stands around a question, and the name of the room for an answer in notebooks.
_FORMAT = [item.name for item in fields(PromptFormat)]
_ROOM = "tokens_to_generate"

# What the questions' metadata say that the seed decides.
_SECRET = ("seed", _ROOM)


def datasets(
    names: str | Sequence[str],
    languages: str | Sequence[str],
    lengths: int | str | Sequence[int],
    tokenizer: str | tokens.Tokenizer,
    **options: Any,
) -> list[Dataset]:
    """Return a dataset for each language, length and task, checked before any question is made.

    Parameters
    ----------
    names
        The tasks, see `rulerlib.tasks.names`.
    languages
        Codes of languages; one, a list, or several with commas between them.
    lengths
        Tokens that prompt and answer may have together, likewise.
    tokenizer
        That of the model which is to be asked, see `rulerlib.dataset.Dataset`.
    options
        What else `rulerlib.dataset.Dataset` takes: ``num_samples``, ``seed``, ``format``,
        ``knobs``, ``texts``, ``queries_per_context``, ``room``.

    Raises
    ------
    ParameterError
        If names, languages or lengths are missing or stand there twice, or as
        `rulerlib.dataset.Dataset`.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`.
    """
    for option in options:
        one_of("option", option, _OPTIONS)
    loaded = tokens.load(tokenizer) if isinstance(tokenizer, str) else tokenizer
    return [
        Dataset(name, length, code, loaded, **options)
        for code in values_of("languages", languages, packs.available())
        for length in values_of("lengths", lengths)
        for name in tasks.names(names)
    ]


def place(dataset: Dataset) -> str:
    """Return the folder of a dataset's questions below that of all: ``da/4096/data/vt``."""
    code: str = dataset.metadata["language"]
    return f"{code}/{dataset.length}/data/{dataset.task}"


def write(stated: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write questions, or reuse those that stand there, and return their files.

    Parameters
    ----------
    stated
        The parameters of `datasets` by name, as plain data; ``format`` is a dictionary.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        As `datasets`, and if the folder cannot be written.
    RunMismatchError, BusyError
        As `rulerlib.store.questions.write`.
    """
    folder = files.named("folder", folder, "a folder for the questions")
    return [questions.write(dataset, folder / place(dataset)) for dataset in from_settings(stated)]


def from_settings(stated: Mapping[str, Any]) -> list[Dataset]:
    """Return `datasets` of parameters that are plain data; ``format`` is a dictionary.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        As `datasets`.
    """
    form = dictionary("format", stated.get("format", {}), '{"chat": false}')
    return datasets(**{**stated, "format": PromptFormat.from_settings(form)})


# --- Secret and yet reproducible ---------------------------------------------------------------


def commit(stated: Mapping[str, Any], folder: str | Path) -> str:
    """Write questions and what is published before a model is asked; return the hash.

    Parameters
    ----------
    stated
        As in `write`; the ``seed`` is among them, and does not go into the file.

    Raises
    ------
    ParameterError
        If the folder holds a commitment, which would be lost.
    RulerError
        As `write`.
    """
    file = files.named("folder", folder, "a folder for the questions") / COMMITMENT
    require(not file.exists(), "folder", str(folder), f"one without a {COMMITMENT}")
    written = write(stated, folder)
    public = {name: value for name, value in stated.items() if name != "seed"}
    whole = _begun(public, stated["seed"])
    for path in written:
        for line in _lines(path, stated["num_samples"]):
            whole.update(line)
    about = [
        {name: value for name, value in questions.metadata(path).items()
         if name not in (*_SECRET, *questions.GROWING)}
        for path in written
    ]  # fmt: skip
    digest: str = whole.hexdigest()
    files.write_object(file, {"sha256": digest, "settings": public, "datasets": about})
    return digest


def _begun(public: Mapping[str, Any], seed: int) -> Any:
    """Return the hash of all parameters; the lines of the questions follow, in their order."""
    stated = json.dumps({**public, "seed": seed}, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(f"{stated}\n".encode())


def _lines(path: Path, count: int) -> Iterable[bytes]:
    with files.opened(path) as file:
        yield from islice(file, count)


def reveal(file: str | Path, seed: int) -> tuple[bool, str]:
    """Make questions again, and say whether they are those that were committed to.

    Where the questions lie beside the file, they are compared as well, byte for byte.

    Parameters
    ----------
    file
        What `commit` has written.
    seed
        The seed that was kept secret.

    Returns
    -------
    tuple of bool and str
        Whether it holds, and that in one sentence.

    Raises
    ------
    DataError
        If the file is none of `commit`'s.
    RulerError
        If the questions cannot be made here.
    """
    check(seed=seed)
    file = files.named("file", file, f"a file {COMMITMENT}")
    proof = read_object(file)
    public, about, wanted = (proof.get(name) for name in ("settings", "datasets", "sha256"))
    if not (isinstance(public, dict) and isinstance(about, list) and isinstance(wanted, str)):
        raise DataError(f"{file}: not what 'rulerlib make --commit' writes.")
    try:
        again = from_settings({**public, "seed": seed})
    except TypeError as error:
        raise DataError(f"{file}: damaged ({error}).") from error
    whole, lines, beside = _begun(public, seed), 0, 0
    for dataset in again:
        digest, path = hashlib.sha256(), file.parent / place(dataset) / "validation.jsonl"
        for sample in dataset:
            line = sample.to_line()
            lines += 1
            whole.update(line)
            digest.update(line)
        if path.exists():
            beside += 1
            if hashlib.sha256(b"".join(_lines(path, len(dataset)))).digest() != digest.digest():
                return False, f"It does not hold: {path} holds other questions than seed {seed}."
    if whole.hexdigest() != wanted:
        return False, (
            f"It does not hold: seed {seed} gives sha256 {whole.hexdigest()}, and not {wanted}"
            f"{_differing(about, again)}."
        )
    return True, (
        f"It holds: seed {seed} gives the {lines:,} questions with sha256 {wanted}"
        f"{f', and the {beside} files beside it hold the same bytes' if beside else ''}."
    )


def _differing(about: Sequence[Any], again: Sequence[Dataset]) -> str:
    """Return what else than the seed may be the reason, as the end of a sentence."""
    for was, dataset in zip(about, again, strict=False):
        if not isinstance(was, dict):
            continue
        for name, value in was.items():
            now = dataset.metadata.get(name)
            if now != value:
                return f" ({name} was {value!r}, and is {now!r} here)"
    return ": another seed, or other parameters"


# --- The command -------------------------------------------------------------------------------


def add_options(reader: argparse.ArgumentParser) -> None:
    """Let a parser take what `stated` reads."""
    reader.add_argument("tasks", help="names with commas; ruler: all thirteen")
    reader.add_argument("folder", help="where to write")
    reader.add_argument("--length", default="4096", help="tokens, with commas; default 4096")
    reader.add_argument("--language", default="da", help="codes, with commas; default da")
    reader.add_argument("--tokenizer", default="lille", help="that of the model; default lille")
    reader.add_argument("--samples", type=int, default=40, help="of each task; default 40")
    reader.add_argument("--seed", type=int, help="default 42")
    reader.add_argument(
        "-p", metavar="NAME=VALUE", action="append", default=[],
        help="queries_per_context, texts, a knob, or what stands around a question: chat, ...",
    )  # fmt: skip


def stated(given: argparse.Namespace, seed: int = 42) -> dict[str, Any]:
    """Return what somebody typed as the parameters of `write`.

    Raises
    ------
    ParameterError
        If a length is no number, or an option has no name.
    """
    typed = settings("p", given.p, "queries_per_context=5")
    if _ROOM in typed:
        typed["room"] = typed.pop(_ROOM)
    form = {name: typed.pop(name) for name in [*typed] if name in _FORMAT}
    knobs = {name: typed.pop(name) for name in [*typed] if name not in _OPTIONS}
    return {
        "names": given.tasks, "languages": given.language, "lengths": given.length,
        "tokenizer": given.tokenizer,
        "num_samples": given.samples, "seed": seed if given.seed is None else given.seed,
        **({"knobs": knobs} if knobs else {}), **({"format": form} if form else {}), **typed,
    }  # fmt: skip


@commands.command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions, with --commit print a hash of them, and return the exit code."""
    reader = commands.parser(
        "rulerlib.making",
        "TASKS FOLDER [options]",
        "Write questions to FOLDER/<language>/<length>/data/<task>/validation.jsonl.",
        "niah_single_2,vt secret --length 4096 --language en --commit",
    )
    add_options(reader)
    reader.add_argument(
        "--commit", action="store_true",
        help="draw a secret seed, and print a hash to publish before a model is asked",
    )  # fmt: skip
    given = reader.parse_args(arguments)
    wanted = stated(given, secrets.randbits(SEED_BITS) if given.commit else 42)
    if not given.commit:
        print("\n".join(map(str, write(wanted, given.folder))))
        return 0
    digest = commit(wanted, given.folder)
    file = Path(given.folder) / COMMITMENT
    print(f"Publish now ({file}): sha256 {digest}, rulerlib {rulerlib.__version__}")
    print(f"Keep secret until the answers are there: seed {wanted['seed']}")
    print(f"Then anybody can run: rulerlib check --reveal {wanted['seed']} {file}")
    if given.seed is not None:
        print("The seed was given: whoever guesses it has the questions.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
