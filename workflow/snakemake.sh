#!/usr/bin/env bash
# Hands the jobs of a sweep to Snakemake, whose own words go into a log:
#
#     workflow/snakemake.sh FOLDER PROFILE
#
# What a queue refuses is said here, each reason once.
set -uo pipefail
folder=$1 profile=$2 workflow=$(dirname "$0")
# Jobs run in the folder of the sweep, and find what a plan brings from here.
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
log=$folder/logs/snakemake.log
if [ "$profile" = slurm ] && ! command -v sbatch > /dev/null; then
    echo "There is no sbatch: start the sweep where you submit jobs, or with PROFILE=local." >&2
    exit 1
fi
"${SNAKEMAKE:-snakemake}" --snakefile "$workflow/Snakefile" --profile "$workflow/profiles/$profile" \
    --directory "$folder" "${@:3}" > "$log" 2>&1
status=$?
# A refusal ends in the quotation mark and the full stop of Snakemake's own sentence.
sed -n "s|.*sbatch: \(error: \)\?||; T; s|'\?\.\?\$||; s|.*|The queue refused jobs: &. See $log.|p" \
    "$log" | sort -u >&2
exit $status
