#!/usr/bin/env bash
# Unpacks the program that lies beside this file and runs it: gpu-check.sh --help. It is
# several programs, by the name under which it is called.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
unpacked=$(mktemp -d)
trap 'rm -rf -- "$unpacked"' EXIT
gzip -dc -- "$here/gpucheck.gz" >"$unpacked/gpucheck"
chmod +x -- "$unpacked/gpucheck"
for name in privgrad kernels.test cuda.test cudrv.test; do
	ln -- "$unpacked/gpucheck" "$unpacked/$name"
done
"$unpacked/gpucheck" "$@"
