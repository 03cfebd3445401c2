#!/usr/bin/env bash
# Trains on four processes and on one, and compares: exact noise gives both the same model where
# their keys are the same, which only tests have. Here the accuracy must be the same within 2 points.
set -euo pipefail
mpirun=$1
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
settings=(--model logistic --batch 6000 --steps 40 --noise-multiplier 1 --progress off --json)
accuracy() { sed -n 's/.*"test_accuracy": \([0-9.]*\).*/\1/p' "$1" | head -1; }
bin/privgrad-mpi train "${settings[@]}" --threads 1 --out "$dir/one" >"$dir/one.json"
$mpirun -n 4 bin/privgrad-mpi train "${settings[@]}" --threads 1 --out "$dir/four" >"$dir/four.json"
one=$(accuracy "$dir/one.json") four=$(accuracy "$dir/four.json")
echo "accuracy of one process $one, of four $four"
awk -v a="$one" -v b="$four" 'BEGIN { d = a - b; exit !(a > 0.5 && b > 0.5 && d < 0.02 && d > -0.02) }'
bin/privgrad-mpi verify "$dir/four" >/dev/null

# A job begins where a person has said so, and goes on ever after; on another disk it is refused.
job() { deploy/run-or-resume.sh "$dir/job" "$mpirun -n 2 bin/privgrad-mpi" "${settings[@]:0:8}" --threads 1; }
if job 2>"$dir/job.out"; then
	echo 'a job begins on a disk that may be another' >&2
	exit 1
fi
touch "$dir/job.start"
job >"$dir/job.out"
job >"$dir/job.out" 2>&1
grep -q 'had finished' "$dir/job.out"
rm -r "$dir/job"
if job 2>"$dir/job.out"; then
	echo 'a job begins a second time' >&2
	exit 1
fi
echo 'a job begins once, and is refused on another disk'
