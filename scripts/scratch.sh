#!/bin/sh
# Runs a command whose scratch files lie in memory, where there is room for them and programs
# may lie there: tests write thousands of small files and wait for the disk at each. Elsewhere,
# as on macOS, the command runs as it would by itself. SCRATCH names another directory of
# memory; SCRATCH= uses none. The directory is the same in each run, as results of tests that
# Go keeps depend on it.
set -eu
if [ -n "${SCRATCH_CHOSEN:-}" ] || [ "${SCRATCH-unset}" = '' ]; then
	exec "$@"
fi
export SCRATCH_CHOSEN=yes
needed=6291456 # KiB
memory=${SCRATCH:-/dev/shm}
dir=$memory/privgrad-$(id -u)

# room is how many KiB files there can take: of the directory, of the machine and of a container.
room() {
	free=$(df -Pk "$memory" 2>/dev/null | awk 'NR == 2 { print $4 }')
	for other in "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)" \
		"$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current 2>/dev/null |
			awk 'NR == 1 && $1 != "max" { most = $1 } NR == 2 && most { printf "%.0f", (most - $1) / 1024 }')"; do
		if [ -n "$other" ] && [ "$other" -lt "${free:-0}" ]; then
			free=$other
		fi
	done
	echo "${free:-0}"
}

# users are the runs that use the directory now; those that were killed do not count.
users() {
	for run in "$dir"/run.*; do
		if [ -e "$run" ] && kill -0 "${run##*.}" 2>/dev/null; then
			echo "$run"
		fi
	done
}

leave() {
	rm -f "$dir/run.$$"
	if [ -z "$(users)" ]; then
		rm -rf "$dir"
	fi
}

usable() {
	if [ -d "$memory" ] && [ "$(room)" -gt "$needed" ]; then
		mkdir -m 700 "$dir" 2>/dev/null || true
	fi
	if [ -h "$dir" ] || ! [ -d "$dir" ] || ! [ -O "$dir" ]; then
		return 1
	fi
	trap leave EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	: >"$dir/run.$$" && printf '#!/bin/sh\n' >"$dir/try.$$" && chmod +x "$dir/try.$$" && "$dir/try.$$" && rm "$dir/try.$$"
}

if usable 2>/dev/null; then
	TMPDIR=$dir "$@"
else
	"$@"
fi
