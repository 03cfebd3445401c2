#!/usr/bin/env bash
# Times steps of training by turns: one process with as many threads as there are ranks, and ranks of one thread each. A
# step's time is that of a long run less that of a run of one step, so that starting does not count. It prints the median of
# the rounds and the speed of the ranks, in parts of that of the process. The time of the processors is beside it, which other
# programs on the machine do not lengthen as much.
#
#   scripts/mpi-speed.sh 'mpirun --oversubscribe' [ranks] [rounds] [models]
set -euo pipefail
mpirun=$1 ranks=${2:-2} rounds=${3:-5} models=${4:-cnn-mnist cifar-small}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
exec 3>&2 # errors of a run go past the pipe that reads its times

# Images of noise, of CIFAR's size: what a step costs does not depend on them.
python3 - "$dir/images.npz" <<'PY'
import os, sys, zipfile
n = 8192
def array(kind, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + len(head).to_bytes(2, 'little') + head.encode() + data
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('x_train.npy', array('|u1', (n, 32, 32, 3), os.urandom(n * 3072)))
    z.writestr('y_train.npy', array('|u1', (n,), bytes(i % 10 for i in range(n))))
PY

# run MODEL STEPS LAUNCHER... gives the seconds of a run, and those of its processors.
TIMEFORMAT='%R %U %S'
run() {
	local model=$1 steps=$2 data=(--data fmnist)
	shift 2
	if [ "$model" = cifar-small ]; then
		data=(--data "npz:$dir/images.npz" --class-names 0,1,2,3,4,5,6,7,8,9 --public-n 8192 --delta 1e-5)
	fi
	rm -rf "$dir/run"
	set -- "$@" --model "$model" "${data[@]}" --batch 1024 --steps "$steps" --noise-multiplier 1 --eval-every 1000000 --progress off --out "$dir/run"
	{ time "$@" >/dev/null 2>"$dir/said" || { cat "$dir/said" >&3; exit 1; }; } 2>&1 | awk 'NF == 3 { print $1, $2 + $3 }'
}
median() { sort -g "$1" | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
one() { run "$1" "$2" bin/privgrad-mpi train --threads "$ranks"; }
many() { run "$1" "$2" $mpirun -n "$ranks" bin/privgrad-mpi train --threads 1; }

for model in $models; do
	case $model in cifar-small) steps=${STEPS:-12} ;; *) steps=${STEPS:-200} ;; esac
	rm -f "$dir"/{one,many,ratio,one-cpu,many-cpu}
	for _ in $(seq "$rounds"); do
		for who in one many; do
			begin=$($who "$model" 1)
			all=$($who "$model" $((steps + 1)))
			echo "$begin $all $steps" | awk '{ print 1000 * ($3 - $1) / $5, 1000 * ($4 - $2) / $5 }' >"$dir/last-$who"
			cut -d' ' -f1 "$dir/last-$who" >>"$dir/$who"
			cut -d' ' -f2 "$dir/last-$who" >>"$dir/$who-cpu"
		done
		paste "$dir/last-one" "$dir/last-many" | awk '{ print $1 / $3 }' >>"$dir/ratio"
	done
	echo "$model, batch 1024, $(getconf _NPROCESSORS_ONLN) cores, medians of $rounds rounds:"
	echo "  one process of $ranks threads  $(median "$dir/one") ms a step, $(median "$dir/one-cpu") ms of processors"
	echo "  $ranks ranks of one thread      $(median "$dir/many") ms a step, $(median "$dir/many-cpu") ms of processors"
	echo "  speed of the ranks          $(median "$dir/ratio") of the process ($(sort -g "$dir/ratio" | tr '\n' ' '))"
done
