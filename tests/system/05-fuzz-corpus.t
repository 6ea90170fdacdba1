#!/bin/sh
# Every committed fuzz input runs through its parser without a crash.
set -u
cd "$(dirname "$0")/../.." || exit 1
n=0
for src in tests/fuzz/fuzz_*.c; do
	name=${src##*/fuzz_}
	name=${name%.c}
	n=$((n + 1))
	dir=tests/fuzz/corpus/fuzz_$name
	if [ -n "$(find "$dir" -type f 2>/dev/null | head -1)" ] &&
	    out=$(find "$dir" -type f -print0 | xargs -0 "$BUILD/replay_$name" 2>&1); then
		echo "ok $n - the corpus of $name is survived ($out)"
	else
		echo "${out:-no corpus}" | sed 's/^/# /'
		echo "not ok $n - the corpus of $name is survived"
	fi
done
echo "1..$n"
