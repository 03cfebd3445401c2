#!/usr/bin/env bash
# Unpacks the bundle that lies beside this file and runs it: gpu-check.sh --help.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
unpacked=$(mktemp -d)
trap 'rm -rf -- "$unpacked"' EXIT
for packed in "$here"/*.gz; do
	binary=$unpacked/$(basename -- "$packed" .gz)
	gzip -dc -- "$packed" >"$binary"
	chmod +x -- "$binary"
done
"$unpacked/gpucheck" "$@"
