#!/usr/bin/env bash
# Breaks runs of several processes, and looks at what is left: every rank ends, with a word that says why, and in the time that
# it may take; the ledger has charged what was released; the run goes on with another number of ranks. It prints a row for
# each fault. `quick` leaves out what needs many runs or namespaces of the network.
#
#   scripts/mpi-faults.sh 'mpirun --oversubscribe' [quick]
set -euo pipefail
mpirun=$1 quick=${2:-}
export PRIVGRAD_RANK_TIMEOUT=8s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
program=$PWD/bin/privgrad-mpi dir=$(mktemp -d)
steps=1500 block=100
settings=(--model logistic --batch 600 --steps "$steps" --noise-multiplier 1 --eval-every 100 --threads 1 --progress off)

fail() {
	echo "mpi-faults: $*" >&2
	tail -n 30 "$dir"/*.out >&2 || true
	exit 1
}
pids() { # of the ranks of a run directory
	local p
	for p in $(pgrep -f -- "$1" || true); do
		if [ "$(readlink "/proc/$p/exe" || true)" = "$program" ]; then echo "$p"; fi
	done
}
rank_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p'; }
pid_of() { # RUN RANK
	local p
	for p in $(pids "$1"); do
		if [ "$(rank_of "$p" 2>/dev/null || true)" = "$2" ]; then echo "$p"; fi
	done
}
cleanup() {
	local p
	for p in $(pids "$dir/"); do kill -9 "$p" || true; done
	if [ -n "${spaces:-}" ]; then
		ip netns del "$spaces-a" || true
		ip netns del "$spaces-b" || true
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
until_lines() { # RUN N: until the run has been evaluated so often
	local i
	for i in $(seq 1200); do
		if [ -f "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge "$2" ]; then return; fi
		sleep 0.05
	done
	fail "the run $1 does not train"
}
gone() { # RUN: no rank of it is left, a second after the launcher's end: it does not wait for the ranks that it kills
	local i
	for i in $(seq 20); do
		if [ -z "$(pids "$1")" ]; then return; fi
		sleep 0.05
	done
	fail "ranks of $1 go on"
}
number() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}\$/\1/p" "$2" | head -n 1; }
seconds() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }
row() { printf '| %s | %s s | %s |\n' "$@"; }

# resumed RUN RANKS MOST goes on to the end and prints how many steps are lost. No more than MOST may be, and the ledger counts all.
resumed() {
	timeout 300 $mpirun -n "$2" "$program" resume "$1" --progress off --json >"$dir/resumed.json" 2>"$dir/resumed.out" || fail "$1 does not go on"
	local done lost epsilon
	done=$(number steps "$dir/resumed.json") epsilon=$(number epsilon "$dir/resumed.json")
	lost=$((steps - done))
	[ "$lost" -ge 0 ] && [ "$lost" -le "$3" ] || fail "$1 has lost $lost steps"
	[ "$(number epsilon_so_far "$dir/resumed.json")" = "$epsilon" ] || fail "$1: the ledger has not charged what was released"
	"$program" verify "$1" >"$dir/verify.out" 2>&1 || fail "$1 is not what its ledger says"
	echo "$lost"
}
start() { # NAME RANKS: in the background
	timeout 300 $mpirun -n "$2" "$program" train "${settings[@]}" --out "$dir/$1" >"$dir/$1.out" 2>&1 &
	launcher=$!
}
ended() { # NAME: with an error, and no rank is left
	if wait "$launcher"; then fail "$1 ends as if nothing had been"; fi
	gone "$dir/$1"
}

echo '| fault | all ranks have ended after | the run goes on |'
echo '|---|---|---|'

# A rank is killed.
kill_rank() { # NAME RANK
	start "$1" 3
	until_lines "$dir/$1" 3
	local began; began=$(date +%s.%N)
	kill -9 "$(pid_of "$dir/$1" "$2")"
	ended "$1"
	local took; took=$(seconds "$began")
	row "kill -9 of rank $2 of 3" "$took" "with 2 ranks; $(resumed "$dir/$1" 2 $block) of $steps steps lost"
}
kill_rank killed 1
if [ -z "$quick" ]; then kill_rank killed0 0; fi

# A rank stops.
start stalled 3
until_lines "$dir/stalled" 3
began=$(date +%s.%N)
kill -STOP "$(pid_of "$dir/stalled" 2)"
ended stalled
took=$(seconds "$began")
grep -q 'another rank has not come within 8s' "$dir/stalled.out" || fail 'a stalled rank is not named as the reason'
row 'rank 2 of 3 is stopped, with a time limit of 8 s' "$took" "with 4 ranks; $(resumed "$dir/stalled" 4 $block) of $steps steps lost"

# The disk of rank 0 is full. The small disk is in a namespace of its own, of which the shell that fills it is a part.
spare=(unshare -m)
if [ "$(id -u)" != 0 ]; then spare=(unshare -rm); fi
if "${spare[@]}" true 2>/dev/null; then
	mkdir "$dir/disk"
	cat >"$dir/fill.sh" <<SH
mount -t tmpfs -o size=4m none "$dir/disk" || exit 9
timeout 300 $mpirun -n 3 "$program" train ${settings[*]} --out "$dir/disk/run" >"$dir/full.out" 2>&1 &
for i in \$(seq 1200); do
	[ -f "$dir/disk/run/metrics.jsonl" ] && [ "\$(wc -l <"$dir/disk/run/metrics.jsonl")" -ge 3 ] && break
	sleep 0.05
done
date +%s.%N >"$dir/began"
cat /dev/zero >"$dir/disk/fill" 2>/dev/null
wait \$! && exit 8
rm "$dir/disk/fill"
cp -a "$dir/disk/run" "$dir/full"
SH
	"${spare[@]}" bash "$dir/fill.sh" || fail "a run goes on with a full disk, or there is none: $?"
	gone "$dir/disk/run"
	took=$(seconds "$(cat "$dir/began")")
	grep -q 'rank 0: .*no space left on device' "$dir/full.out" || fail 'a full disk is not named as the reason'
	row 'the disk of rank 0 is full' "$took" "with 2 ranks; $(resumed "$dir/full" 2 $block) of $steps steps lost"
fi

# Ranks that are not alike are refused, and nothing is written.
refused() { # NAME WORDS COMMAND...
	local name=$1 words=$2 began; shift 2
	began=$(date +%s.%N)
	if timeout 120 "$@" >"$dir/$name.out" 2>&1; then fail "$name is not refused"; fi
	gone "$dir/$name"
	local took; took=$(seconds "$began")
	grep -q "$words" "$dir/$name.out" || fail "$name is refused with other words than $words"
	[ ! -e "$dir/$name" ] || fail "$name is refused, and has written"
	row "${words#its }: not that of rank 0" "$took" 'nothing was written'
}
cp "$program" "$dir/other" && printf '\0' >>"$dir/other"
refused other-binary 'its program' $mpirun -n 2 "$program" train "${settings[@]}" --out "$dir/other-binary" : -n 1 "$dir/other" train "${settings[@]}" --out "$dir/other-binary"
refused other-settings 'its settings' $mpirun -n 2 "$program" train "${settings[@]}" --out "$dir/other-settings" : -n 1 "$program" train "${settings[@]}" --lr 0.1 --out "$dir/other-settings"
awk 'BEGIN { print "x,y"; for (i = 0; i < 400; i++) print i / 400 "," i % 2 }' >"$dir/t.csv"
printf 'columns: [{name: x, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [0, 1]}\n' >"$dir/t.csv.schema.yaml"
for n in 3 4; do
	mkdir "$dir/$n"
	(cd "$dir/$n" && "$program" data shard "csv:$dir/t.csv" --public-n 400 --shards "$n" --out s >/dev/null)
done
own=(train --data shards:s --public-n 400 --delta 1e-4 --batch 40 --steps 100 --noise-multiplier 1 --threads 1 --out "$dir/other-shards")
refused other-shards 'its list of shards' $mpirun -n 2 -wdir "$dir/3" "$program" "${own[@]}" : -n 1 -wdir "$dir/4" "$program" "${own[@]}"

if [ -n "$quick" ]; then exit; fi

# Ranks die one after another, by chance, and the run goes on each time with another number of them.
killed=0
start tortured 3
began=$(date +%s.%N)
for k in $(seq "${KILLS:-8}"); do
	for i in $(seq 600); do
		if [ -n "$(pids "$dir/tortured")" ] || ! kill -0 "$launcher" 2>/dev/null; then break; fi
		sleep 0.05
	done
	sleep "$((RANDOM % 3)).$((RANDOM % 10))"
	all=($(pids "$dir/tortured"))
	if [ ${#all[@]} = 0 ]; then break; fi # it has finished
	kill -9 "${all[RANDOM % ${#all[@]}]}" && killed=$((killed + 1))
	wait "$launcher" || true
	gone "$dir/tortured"
	if [ ! -e "$dir/tortured/config.yaml" ]; then # nothing was written yet
		start tortured $((1 + RANDOM % 4))
		continue
	fi
	timeout 300 $mpirun -n $((1 + RANDOM % 4)) "$program" resume "$dir/tortured" --progress off >"$dir/tortured.out" 2>&1 &
	launcher=$!
done
wait "$launcher" || true
row "kill -9 of $killed ranks by chance, one after another" "$(seconds "$began")" "each time with 1 to 4 ranks; $(resumed "$dir/tortured" 2 $((killed * block))) of $steps steps lost"

# Two machines lose each other: network namespaces, joined by a cable that is pulled. Open MPI, whose agent starts the other machine.
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI' && ip netns add "pg$$-a" 2>/dev/null; then
	spaces=pg$$
	ip netns add "$spaces-b"
	ip link add v0 netns "$spaces-a" type veth peer name v1 netns "$spaces-b"
	ip -n "$spaces-a" addr add 10.77.0.1/24 dev v0
	ip -n "$spaces-b" addr add 10.77.0.2/24 dev v1
	for x in "a v0" "b v1"; do
		ip -n "$spaces-${x% *}" link set "${x#* }" up
		ip -n "$spaces-${x% *}" link set lo up
	done
	printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$spaces-b" >"$dir/agent"
	chmod +x "$dir/agent"
	timeout 300 ip netns exec "$spaces-a" mpirun --mca plm_rsh_agent "$dir/agent" -x PRIVGRAD_RANK_TIMEOUT -H 10.77.0.1:1,10.77.0.2:1 -n 2 \
		--mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
		"$program" train "${settings[@]}" --out "$dir/parted" >"$dir/parted.out" 2>&1 &
	launcher=$!
	until_lines "$dir/parted" 3
	began=$(date +%s.%N)
	ip -n "$spaces-b" link set v1 down
	for i in $(seq 600); do
		if [ -z "$(pids "$dir/parted")" ]; then break; fi
		sleep 0.1
	done
	gone "$dir/parted"
	took=$(seconds "$began")
	ip -n "$spaces-b" link set v1 up # for which mpirun itself waits
	ended parted
	[ "$(grep -c 'another rank has not come within 8s' "$dir/parted.out")" = 2 ] || fail 'a rank on one side of a partition does not say why it ended'
	row 'two machines lose their network, with a time limit of 8 s' "$took" "with 3 ranks; $(resumed "$dir/parted" 3 $block) of $steps steps lost"
fi
