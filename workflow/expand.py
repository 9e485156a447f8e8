"""Expand a plan into a table of papermill runs, and collect their scores.

    python workflow/expand.py params/sweeps/small.yaml     # writes runs.csv, prints its folder
    python workflow/expand.py --collect runs/sweeps/small  # writes scores.csv

A run executes one notebook for one model, language, length and seed. `workflow/Snakefile` executes
every row of the table.
"""

import argparse
import csv
import itertools
import json
import sys
from pathlib import Path

from rulerlib import analysis, tasks
from rulerlib.errors import ParameterError, RulerError, dictionary, one_of, settings_file, values_of
from rulerlib.runs import Run

NEEDED = ("models", "languages", "lengths")
DEFAULTS = {"tasks": "ruler", "seeds": [42], "num_samples": 40, "output": "runs/sweep"}
RESOURCES = {"gpus": 0, "cpus": 1, "memory_gb": 8, "hours": 8, "partition": ""}

# Settings of decoding that have another name in a notebook.
RENAMED = {"seed": "decoding_seed", "samples": "samples_per_question"}


def expand(plan):
    """Return a row for each run of a plan: its name, notebook, parameters and resources."""
    for name in NEEDED:
        if name not in plan:
            raise ParameterError(name, None, "given")
    plan = {**DEFAULTS, **plan}
    models = dictionary("models", plan.pop("models"), "{lille: {model: lille}}")
    languages, lengths, seeds = (
        values_of(name, plan.pop(name)) for name in ("languages", "lengths", "seeds")
    )
    groups = task_groups(plan.pop("tasks"))
    output = Path(plan.pop("output")).absolute() / "runs"
    rows = []
    for label, model in models.items():
        model = dictionary(f"models.{label}", model, "{model: lille}")
        resources = dictionary("resources", model.pop("resources", {}), "{gpus: 1}")
        for name in resources:
            one_of("a name in resources", name, RESOURCES)
        parameters = {**notebook_parameters(plan, model), "output": str(output), "num_lengths": 1}
        for language, length, group in itertools.product(languages, lengths, groups):
            family, names, settings = group
            run = {**parameters, **settings, "language": language, "length": length}
            if not any(tasks.resolve(name).reads_texts for name in names):
                run["texts"] = None
            names = fitting(names, {**run, "seed": seeds[0]}, family)
            run["tasks"] = ",".join(names)
            for seed in seeds if names else []:
                parts = [label, language, length, f"seed{seed}"]
                parts += [f"{names[0]}{groups.index(group)}"] if family else []
                row = {
                    "name": "-".join(map(str, parts)).replace("/", "_"),
                    "notebook": family or "inference",
                    "parameters": json.dumps({**run, "seed": seed}),
                }
                rows.append({**row, **RESOURCES, **resources})
    if not rows:
        allowed = "at least one that a model and a task can take"
        raise ParameterError("lengths", lengths, allowed)
    return rows


def task_groups(given):
    """Return (family, tasks, settings): all plain tasks without a family, then each changed one."""
    plain, changed = [], []
    for row in [given] if isinstance(given, str) else given:
        if isinstance(row, str):
            plain += tasks.names(row)
        else:
            settings = dictionary("tasks", row, '{"task": "vt", "num_hops": 8}')
            task = settings.pop("task", None)
            family = tasks.resolve(task, **settings).family
            changed.append((family, [task], {**settings, "study": None}))
    return ([(None, plain, {})] if plain else []) + changed


def notebook_parameters(plan, model):
    """Return the parameters of a model in a notebook; those of the model take precedence."""
    parameters = {}
    for settings in (dict(plan), dict(model)):
        server = settings.pop("server", None)
        parameters |= settings.pop("format", {})
        decoding = settings.pop("decoding", {})
        parameters |= {RENAMED.get(name, name): value for name, value in decoding.items()}
        parameters |= settings
        if server is not None:
            options = parameters.get("engine_options", {})
            parameters["engine_options"] = {**options, "base_url": server["url"]}
    return parameters


def fitting(names, parameters, family):
    """Return the tasks that the model takes at this length, after checking all parameters."""
    fit = []
    for name in names:
        try:
            Run.from_notebook({**parameters, "tasks": name}, family)
        except ParameterError as error:
            if error.parameter != "length":
                raise
            reason = str(error).rstrip(".")
            print(f"Left out: {name} in {parameters['language']} ({reason}).", file=sys.stderr)
        else:
            fit.append(name)
    return fit


def main():
    """Expand the plan on the command line, or collect the scores of its folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", help="a plan in YAML; with --collect, the folder of its output")
    parser.add_argument("--collect", action="store_true", help="write the table of scores")
    given = parser.parse_args()
    if given.collect:
        scores = analysis.scores(analysis.read_predictions(Path(given.place) / "runs"))
        analysis.accuracy(scores).to_csv(Path(given.place) / "scores.csv", index=False)
        return
    plan = settings_file(given.place, "a plan")
    rows, folder = expand(plan), Path(plan.get("output", DEFAULTS["output"]))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "runs.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    print(f"{folder / 'runs.csv'}: {len(rows)} runs", file=sys.stderr)
    print(folder)


if __name__ == "__main__":
    try:
        main()
    except RulerError as error:
        sys.exit(str(error))
