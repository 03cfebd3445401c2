#!/bin/sh
# Starts a run once, and resumes it ever after: for jobs that a cluster may start again and again.
#
#   run-or-resume.sh RUN 'mpirun -n 4 privgrad-mpi' [settings of privgrad train]
#
# A run begins only where a person has made the file RUN.start, which goes when the run begins. Where neither that file nor the
# run is there, the disk is not the one that the run was on. A run that began anew there would spend a second budget, of
# which no ledger knows.
set -eu

if [ $# -lt 2 ]; then
	echo "usage: run-or-resume.sh RUN 'mpirun -n 4 privgrad-mpi' [settings of privgrad train]" >&2
	exit 2
fi
run=${1%/} launch=$2
shift 2
for setting; do
	case $setting in
	--out | --out=* | --resume | --resume=*)
		echo "run-or-resume.sh: $setting is not for you to give: the run directory is $run, and a run that is there goes on" >&2
		exit 2
		;;
	esac
done

# The launcher is several words.
if [ -e "$run/ledger.db" ] || [ -e "$run/config.yaml" ]; then
	rm -f "$run.start"
	exec $launch resume "$run" --progress off
fi
if [ ! -e "$run.start" ]; then
	echo "run-or-resume.sh: there is no run in $run. If it was on another disk, mount that one." \
		"If it has never begun, make the file $run.start, once and by hand. A run that begins anew spends a second budget." >&2
	exit 2
fi
rm "$run.start" # fails where another job was faster
sync "$(dirname "$run")"
exec $launch train "$@" --out "$run" --progress off
