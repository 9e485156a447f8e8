"""What a port of RULER does otherwise than RULER, found in the files that it wrote.

Given a folder of prompts, answers and scores, `check` names the differences from RULER's
definition (Hsieh et al. 2024, and NVIDIA's scripts), each with its evidence; of the tasks of
``frontier``, those from ours. From a shell::

    rulerlib check FOLDER --tokenizer NAME

>>> import json, pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "4096" / "pred"
>>> folder.mkdir(parents=True)
>>> record = {"index": 0, "input": "Ada? Bo. Who asks?", "outputs": ["Ada"], "pred": "Ada"}
>>> _ = (folder / "qa_1.jsonl").write_text(json.dumps(record))
>>> report = check(folder)
>>> [finding.fault for finding in report.findings]
['answer prefix lost']
>>> report.findings[0].evidence
"Its prompt ends in 'Ada? Bo. Who asks?'."
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rulerlib import tokens
from rulerlib.conformance import layouts
from rulerlib.conformance.faults import FAULTS
from rulerlib.errors import DataError, whole_number
from rulerlib.tasks import RULER
from rulerlib.tokens import Tokenizer

OTHER = "This task is none of RULER's; the page of the frontier says how it is asked and scored."
"""What is said in place of RULER's way, where a task of the frontier differs."""


@dataclass(frozen=True)
class Finding:
    """A fault in one file.

    Attributes
    ----------
    fault
        Its name, see `rulerlib.conformance.faults.FAULTS`.
    file, task, length
        Where; the context length in tokens, None where it is not known.
    records, checked
        How many records show it, and how many could be judged.
    first
        The file and number of the first.
    evidence, ruler
        The numbers behind it, and what RULER does instead.
    """

    fault: str
    file: str
    task: str
    length: int | None
    records: int
    checked: int
    first: str
    evidence: str
    ruler: str


@dataclass(frozen=True)
class PortReport:
    """What `check` found.

    Attributes
    ----------
    folder, layout
        What was read, and as whose files.
    files, records
        How many files, and records in them.
    findings
        The faults, file by file.
    unchecked
        The faults that could not be looked for in any file, and why.
    """

    folder: str
    layout: str
    files: int
    records: int
    findings: Sequence[Finding]
    unchecked: dict[str, str]

    def __str__(self) -> str:
        """Return the report for people to read."""
        files = f"{self.files} file{'s' if self.files > 1 else ''}"
        lines = [f"{self.folder}: {self.records:,} records in {files}, in {self.layout}'s layout."]
        for one in self.findings:
            length = f" at {one.length:,} tokens" if one.length else ""
            lines.append(
                f"\n{one.fault}: {one.task}{length}, {one.records} of {one.checked} records\n"
                f"    First in {one.first}.\n    {one.evidence}\n    {one.ruler}"
            )
        if not self.findings:
            lines.append("Nothing differs from RULER in what was checked.")
        if self.unchecked:
            lines.append("\nNot checked:")
            lines += [f"    {fault}: {why}" for fault, why in self.unchecked.items()]
        return "\n".join(lines)


def check(
    folder: str | Path, tokenizer: str | Tokenizer | None = None, length: int | None = None
) -> PortReport:
    """Return what the files of a folder do otherwise than RULER.

    Parameters
    ----------
    folder
        Files of NVIDIA's scripts, lm-eval's samples, or a run of this project: one layout at a
        time.
    tokenizer
        The one that the port counted with: a model's name or folder, or a loaded one. Without
        it, only lengths that the records state are held against the budget.
    length
        The context length in tokens, where the files do not say it.

    Raises
    ------
    DataError
        If there are no such files, one cannot be read or is damaged, they are of several layouts,
        or none is of a task of RULER's or the frontier's.
    ParameterError
        If there is no such tokenizer, or ``length`` is no whole number above 0.
    MissingExtraError
        If a package is missing that reads the tokenizer.
    """
    if length is not None:
        whole_number("length", length, 1)
    layout, paths = layouts.find(folder)
    if isinstance(tokenizer, str):
        tokenizer = tokens.load(tokenizer)
    files, records = set[Path](), 0
    findings: list[Finding] = []
    judged = dict.fromkeys((fault.name for fault in FAULTS), 0)
    for file in layouts.read(layout, paths):
        file = replace(file, length=file.length or length)
        files.add(file.path)
        records += len(file.answers)
        for fault in FAULTS:
            checked, shown, evidence = fault.look(file, tokenizer)
            judged[fault.name] += checked
            if shown:
                findings.append(Finding(
                    fault.name, str(file.path), file.task.name, file.length, len(shown), checked,
                    shown[0].where, evidence, fault.ruler if file.task.name in RULER else OTHER,
                ))  # fmt: skip
    if not records:
        raise DataError(f"{folder}: no records of a task of RULER's or ours, as file names say.")
    unchecked = {fault.name: fault.needs for fault in FAULTS if not judged[fault.name]}
    return PortReport(str(folder), layout, len(files), records, findings, unchecked)
