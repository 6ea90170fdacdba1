#!/bin/bash
# The file of pid 1 of a sandbox: small, nothing to load, nothing to relocate, no page both
# writable and executable; and that it compiles for the other machine. TAP.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${BUILD:-build/gcc-opt}
F=$B/cofferdam-init

n=0
report() { # ok|not ok, sentence, detail
	n=$((n + 1))
	echo "$1 $n - $2"
	[ -z "${3:-}" ] || echo "# ${3//$'\n'/$'\n'# }"
}
holds() { # sentence, detail: none means that it holds
	if [ -z "$2" ]; then report ok "$1"; else report "not ok" "$1" "$2"; fi
}

echo "1..6"
size=$(stat -c %s "$F")
holds "pid 1 of a sandbox is smaller than 32 KiB" "$([ "$size" -lt 32768 ] || echo "$size bytes")"
holds "it needs no library and no loader" "$(readelf -lWd "$F" | grep -E 'INTERP|DYNAMIC|NEEDED' || true)"
holds "nothing in it is relocated" "$(readelf -rW "$F" | grep -v 'There are no relocations' | grep . || true)"
holds "no part of it is writable and executable" "$(readelf -lW "$F" | grep -E ' RWE ' || true)"
# Comments of the compiler apart, a C library would leave its name.
holds "there is no C library in it" "$(strings -a "$F" | grep -iE 'glibc|ld-linux|libc\.so' || true)"

# A header of the other machine's system, and its compiler (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross).
CROSS=aarch64-linux-gnu-gcc
if ! command -v $CROSS >/dev/null; then
	report ok "it compiles for aarch64 # SKIP there is no $CROSS (Debian: gcc-aarch64-linux-gnu)"
else
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	if said=$(make -s CC=$CROSS "B=$tmp" "$tmp/cofferdam-init" 2>&1); then
		holds "it compiles for aarch64" \
			"$(readelf -hW "$tmp/cofferdam-init" | grep -q AArch64 || echo "it is of another machine")"
	else
		report "not ok" "it compiles for aarch64" "$said"
	fi
fi
