#!/bin/sh
#SBATCH --job-name=privgrad
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=INT@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Trains on four nodes: docs/guides/scale.md. The folder is on a disk that all nodes see and that outlives the job. Before the
# first start, and only then: touch runs/first.start
#
# Two minutes before its time is up, Slurm interrupts the run, which saves. Then the job asks to be started again, and the
# run goes on. If a node fails, Slurm starts the job again by itself.
set -eu
cd "${PRIVGRAD_FOLDER:-$SLURM_SUBMIT_DIR}"

status=0
deploy/run-or-resume.sh runs/first "srun --mpi=pmix bin/privgrad-mpi" \
	--data shards:data.shards --public-n 5000000 --delta 1e-8 --epsilon 3 --batch 16384 \
	--threads "$SLURM_CPUS_PER_TASK" || status=$?
if [ "$status" = 130 ]; then # interrupted, and saved
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
