"""Mutation testing: change the code in small ways, and list the changes that no test notices.

    python tests/mutants.py FOLDER [MODULE ...]

``FOLDER`` must not be there yet: the project is copied into it, so that nothing here is changed.
Without modules, all of ``TESTS`` are taken one after the other, in about an hour; a run that was
stopped goes on where it was if ``mutmut run`` is called in ``FOLDER/MODULE``. mutmut must be
installed (``pip install mutmut==3.8.1``); what its results mean is said in ``tests/MUTATION.md``.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Whose tests they are, by module, and which of them are left out because they take long; that of
# the warning's line because mutmut puts lines of its own in between.
TESTS = {
    "metrics/matches": ("metrics", "table_prints"),
    "scoring": ("scoring", ""),
    "intervals": ("intervals", "covers design_effect_is"),
    "haystack": ("haystack", ""),
    "samples": ("samples", ""),
    "parts": ("parts", "its_own_parts without_a_context every_"),
    "store/cell": ("store", "written"),
    "files": ("store store_lock", "differ_in short_and_safe without_locks"),
    "store/questions": ("store_questions", "killed_at second_writer"),
    "store/answers": ("store_answers", "two_processes"),
    "tokens": ("tokens", "budgets merges_across"),
}

# Each mutant is tested in a process of its own, forked before any test has run: what one test
# keeps, a cache above all, would hide a mutant from the next.
SETTINGS = """
[tool.mutmut]
source_paths = ["rulerlib"]
also_copy = ["conftest.py", "book", "benchmarks", "params", "training", "notebooks"]
only_mutate = {sources}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = {options}
timeout_constant = 10.0
timeout_multiplier = 5.0
process_isolation = "forkserver"
"""

# Bytes: a mutant may fill a list without end, and would take what the machine has.
MOST_MEMORY = 6 * 10**9

# A mutant that is found need not be found by the smallest example, nor by the last of hundreds.
EXAMPLES = 50
PROFILE = f"""
from hypothesis import Phase
settings.register_profile(
    "mutants",
    settings.get_profile("rulerlib"),
    phases=[Phase.explicit, Phase.generate],
    max_examples={EXAMPLES},
)
settings.load_profile("mutants")
"""

# Imported once, before the processes are forked: it takes longer than all tests of a mutant.
IMPORTED = {
    "tokens": "import jinja2.ext, jinja2.sandbox, numpy, transformers.models.auto.tokenization_auto"
}


def run(module: str, folder: Path) -> None:
    """Copy the project into a folder, and list the mutants of a module that its tests miss."""
    ignored = shutil.ignore_patterns(".*", "runs", "_build", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=ignored)
    names, left_out = TESTS[module]
    files = [f"tests/test_{name}.py" for name in names.split()]
    options = ["-p", "no:cacheprovider"]
    if left_out:
        options += ["-k", " and ".join(f"not {each}" for each in left_out.split())]
    settings = SETTINGS.format(
        sources=json.dumps([f"rulerlib/{module}.py"]),
        tests=json.dumps(files),
        options=json.dumps(options),
    )
    more = PROFILE + IMPORTED.get(module, "")
    for file, added in (("pyproject.toml", settings), ("tests/conftest.py", more)):
        with (folder / file).open("a", encoding="utf-8") as opened:
            opened.write(added)
    # What a test says itself goes before any profile.
    for file in map(folder.joinpath, files):
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"max_examples=\d+", f"max_examples={EXAMPLES}", text)
        file.write_text(text, encoding="utf-8")
    # Reading the plug-ins of pytest takes longer than most tests.
    shared = os.environ.get("RULERLIB_TEST_DATA", str(ROOT.parent / "shared" / "data"))
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "RULERLIB_TEST_DATA": shared}
    for command in (["run", "--max-children", "1"], ["results"]):
        subprocess.run([sys.executable, "-m", "mutmut", *command], cwd=folder, env=env, check=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for chosen in sys.argv[2:] or TESTS:
        run(chosen, Path(sys.argv[1], chosen.replace("/", "_")).resolve())
