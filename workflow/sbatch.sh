#!/usr/bin/env bash
# A sweep without Snakemake: an array of jobs, one for each line of jobs.tsv.
#
#     python -m rulerlib.sweep plan params/sweeps/small.yaml
#     sbatch --array=1-$(($(wc -l < FOLDER/jobs.tsv) - 1))%50 workflow/sbatch.sh FOLDER
#
# FOLDER is the output of the plan. Submitted again, it goes on where it was.
#SBATCH --job-name=sweep
#SBATCH --time=8:00:00
#SBATCH --mem=16G
#SBATCH --cpus-per-task=4
# With a GPU for each job: add --gpus=1.
set -euo pipefail
# It runs in the folder of the sweep, and finds what a plan brings from here.
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
cd "$1"
task=${SLURM_ARRAY_TASK_ID:?this is an array: submit it with --array, as its first lines say}
job=$(sed -n "$((task + 1))p" jobs.tsv | cut -f 1)
: "${job:?jobs.tsv has fewer jobs than $task: submit as many as it has}"
exec "${PYTHON:-python}" -m rulerlib.sweep run . "$job" >> "logs/$job.log" 2>&1
