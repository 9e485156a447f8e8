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
cd "$1"
job=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" jobs.tsv | cut -f 1)
exec "${PYTHON:-python}" -m rulerlib.sweep run . "$job" >> "logs/$job.log" 2>&1
