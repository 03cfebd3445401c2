#!/bin/sh
# Fails where a function is reached by no command and scripts/deadcode.txt does not say why,
# or where that says so of what is reached, or is gone. The first argument is the tool, as
# go run takes it; the second are build tags.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go} tool=$1 tags=${2:-}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
module=$($go list -m)
$go run "$tool" -tags "$tags" -f '{{range .Funcs}}{{println "dead" $.Path .Name}}{{end}}' ./... >"$work/dead"
$go list -deps -tags "$tags" ./cmd/... | sed 's/^/linked /' >"$work/linked"
awk -v prefix="$module/" -v tags="$tags" '
	FILENAME ~ /deadcode.txt$/ {
		if ($1 !~ /^(#.*)?$/ && ($2 != "[gocuda]" || tags ~ /gocuda/)) why[$1] = 1
		next
	}
	{ sub(prefix, "", $2) }
	$1 == "linked" && ($2 "/") in why { reached[$2 "/"] = 1 }
	$1 == "dead" {
		if (($2 "." $3) in why) seen[$2 "." $3] = 1
		else if (($2 "/") in why) seen[$2 "/"] = 1
		else { print "no command reaches " $2 "." $3 ": remove it, or say in scripts/deadcode.txt why it is there"; bad = 1 }
	}
	END {
		for (x in why) if (!(x in seen) || x in reached) { print "scripts/deadcode.txt names " x ", which is reached or gone"; bad = 1 }
		exit bad
	}' scripts/deadcode.txt "$work/dead" "$work/linked"
