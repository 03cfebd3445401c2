#!/usr/bin/env bash
# Tests and measures on a GPU that is lent for a quarter of an hour: two calls, the first of which ends within ten minutes.
#
#   scripts/h200.sh first|second BUNDLE OUTDIR     what it finds is printed at once, and all logs are in OUTDIR/logs.tar.gz
#   scripts/h200.sh --list first|second            the parts, with the seconds that each may take
#
# BUNDLE is bin/gpu-check, or a copy of it. PYTHON names an interpreter that has the peers. The parts come in the order of what
# they are worth. The first call stops where steps of real networks are not those of the CPU: no speed counts then.
set -uo pipefail

list=
if [ "${1-}" = --list ]; then
	list=1
	shift
fi
call=${1-}
bundle=${2-}
out=${3-}
if [ "$call" != first ] && [ "$call" != second ] || [ -z "$list" ] && { [ -z "$bundle" ] || [ -z "$out" ]; }; then
	sed -n '2,/^set /{/^#/!d;s/^# \{0,1\}//;p;}' -- "$0" >&2
	exit 2
fi
python=${PYTHON:-python3}

# part NAME SECONDS COMMAND... runs a command in the unpacked bundle for so long at most, and keeps what it prints.
total=0
part() {
	local name=$1 seconds=$2 status began=$SECONDS
	shift 2
	total=$((total + seconds))
	if [ -n "$list" ]; then
		printf '%-12s %4d s  %s\n' "$name" "$seconds" "$*"
		return 0
	fi
	printf '\n== %s, %d s at most, %d s after the start: %s\n' "$name" "$seconds" "$SECONDS" "$*"
	PATH=$work:$PATH timeout -k 5 "$seconds" "$@" 2>&1 | tee -- "$out/$name.txt"
	status=$?
	printf '== %s ended with %d after %d s\n' "$name" "$status" "$((SECONDS - began))"
	# After each part: who is cut off has what there was.
	tar -C "$out" --exclude=logs.tar.gz -czf "$work/logs" . && mv -- "$work/logs" "$out/logs.tar.gz"
	return "$status"
}

# check NAME SECONDS FLAGS... is a part that gpu-check does. It stops a little before it would be stopped.
check() {
	local name=$1 seconds=$2
	shift 2
	part "$name" "$seconds" "${images[@]}" gpucheck --budget "$((seconds - 3))s" --seconds 0.3 --python "$python" "$@" "${out:-OUTDIR}/$name"
}

# images PTX|CUBIN|nothing says which form of kernels is loaded, in the parts that follow.
images=()
load() { images=(${1:+env "PRIVGRAD_IMAGES=$1"}); }

first() {
	check start 40 --only info,driver,train
	load cubin
	check cubins 40 --only kernels
	load ptx
	check ptx 40 --only kernels
	load ''
	if ! check real 90 --only real || [ -z "$list" ] && ! grep -q '^passed .* real' "$out/real.txt"; then
		echo 'steps of real networks are not those of the CPU, or were not compared: nothing is measured'
		return 1
	fi
	check suite 150 --only conformance
	check steps 180 --only bench,peers --models "$deep" --batch usual --precisions bf16,tf32,float32 --peers 'torch plain-best'
	check small 40 --only bench --models cnn-mnist,mlp-mnist,mlp-fmnist,mnist-tf --batch usual
}

second() {
	check large 110 --only bench,peers --models cifar-paper,wrn-16-4 --batch 4096 --precisions bf16,tf32 --peers 'torch plain-best'
	check peers 50 --only peers --models "$deep" --batch usual --precisions tf32,bf16 --peers 'opacus ghost,jax vmap'
	for precision in bf16 tf32; do
		part "counters-$precision" 20 "$ncu" --clock-control none --launch-count 60 --metrics "$metrics" \
			privgrad bench step --device cuda --model cifar-paper --batch 250 --precision "$precision" --seconds 0.1
	done
}

deep=cifar-paper,wrn-16-4,cifar-small,resnet-small
metrics=gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed,sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active
metrics=$metrics,dram__throughput.avg.pct_of_peak_sustained_elapsed,l1tex__data_bank_conflicts_pipe_lsu.sum,sm__warps_active.avg.pct_of_peak_sustained_active
ncu=$(command -v ncu || ls /usr/local/cuda*/bin/ncu 2>/dev/null | head -n 1)
ncu=${ncu:-ncu}

if [ -z "$list" ]; then
	mkdir -p -- "$out" || exit 2
	out=$(cd -- "$out" && pwd)
	work=$(mktemp -d)
	trap 'rm -rf -- "$work"' EXIT
	gzip -dc -- "$bundle/gpucheck.gz" >"$work/gpucheck" || exit 2
	chmod +x -- "$work/gpucheck"
	for name in privgrad kernels.test cuda.test cudrv.test; do
		ln -- "$work/gpucheck" "$work/$name"
	done
fi
"$call"
status=$?
[ -z "$list" ] || echo "$total s at most"
# Of the first call, what stops it counts; a part that fails has said so.
[ "$call" = second ] || exit "$status"
