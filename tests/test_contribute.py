"""The examples of "How to take part" run as they stand on their pages."""

from __future__ import annotations

import re

from conftest import ROOT, python

PAGES = ROOT / "book" / "contribute"


def blocks(page: str, kind: str) -> list[str]:
    """The examples of a page, in their order."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_whole_family_of_the_page_on_tasks():
    (wording,) = blocks("task.md", "toml")
    _, family, usage = blocks("task.md", "python")
    # In a process of its own: the table of tasks is the same for all of this one.
    done = python(
        "import sys, tomllib, types\n"
        "from rulerlib import languages, tasks\n"
        "from rulerlib.dataset import Dataset\n"
        "from rulerlib.samples import Prediction\n"
        "module = types.ModuleType('rulerlib.tasks.updates')\n"
        "sys.modules[module.__name__] = module\n"
        f"exec({family!r}, vars(module))\n"
        "tasks.FAMILIES['updates'] = module.FAMILY\n"
        "row = module.FAMILY.variants['updates']\n"
        "tasks.TASKS['updates'] = tasks.Task('updates', module.FAMILY, row)\n"
        f"languages.load('en').templates.update(tomllib.loads({wording!r}))\n"
        f"exec({usage!r})\n"
        "for length in (300, 4096):\n"
        "    sample = Dataset('updates', length, 'en', 'words')[3]\n"
        "    assert sample.length <= length, sample.length\n"
        "    values = [sample.input[part.start : part.end]\n"
        "              for part in sample.parts.of_role('value')]\n"
        "    assert {*sample.outputs} < {*values}, values\n"
        "    wrong = next(value for value in values if value not in sample.outputs)\n"
        "    others = {'parts': sample.parts.to_data()}\n"
        "    answer = Prediction(3, sample.input, sample.outputs, wrong, others)\n"
        "    assert module.FAMILY.scoring.score(wrong, sample.outputs)['all_match'] == 0\n"
        "    assert module.FAMILY.explain(answer, False)['error'] == 'distractor'\n"
        "print('done')\n"
    )
    assert done.stdout.endswith("done\n"), done.stderr
