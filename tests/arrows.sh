#!/bin/bash
# Include arrows (DESIGN: tree): every #include of ours against tests/arrows.txt. TAP.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints "FILE:LINE: INCLUDE" for each arrow that arrows.txt does not have, and each file that
# no line of it covers, beneath directory $1.
wrong_arrows() {
	(cd "$1"; grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' --include='*.[ch]' \
		--include='*.tbl' -- common policy audit broker agent cmd 2>/dev/null || true) |
		awk -v dirs='common policy audit broker agent cmd' '
		FNR == NR {
			if ($0 !~ /^#/ && NF > 1) {
				rule[$1] = ""
				for (i = 2; i <= NF; i++) rule[$1] = rule[$1] " " $i
			}
			next
		}
		{
			split($0, part, ":")
			file = part[1]
			inc = $0
			sub(/^[^"<]*["<]/, "", inc)
			sub(/[">].*$/, "", inc)
			ours = $0 ~ /include[[:space:]]*"/
			n = split(dirs, d, " ")
			for (i = 1; i <= n; i++) if (index(inc, d[i] "/") == 1) ours = 1
			if (!ours) next
			best = ""
			for (r in rule) if (index(file, r) == 1 && length(r) > length(best)) best = r
			if (best == "") { print file ":" part[2] ": no line of arrows.txt covers this file"; next }
			ok = 0
			n = split(rule[best], may, " ")
			for (i = 1; i <= n; i++) if (index(inc, may[i]) == 1) ok = 1
			if (!ok) print file ":" part[2] ": " inc
		}' tests/arrows.txt -
}

n=0
report() { # ok|not ok, sentence, detail lines
	n=$((n + 1))
	echo "$1 $n - $2"
	[ -z "${3:-}" ] || echo "# ${3//$'\n'/$'\n'# }"
}

echo "1..4"
bad=$(wrong_arrows .)
if [ -z "$bad" ]; then
	report ok "every include follows an arrow of arrows.txt"
else
	report "not ok" "every include follows an arrow of arrows.txt" "$bad"
fi

# The test itself: planted arrows are found, and their nearest allowed neighbours are not.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"/{common,policy,audit,broker,agent/sandbox,cmd}
planted() { # file, include: what wrong_arrows says of it
	printf '%s\n' "#include $2" >"$tmp/$1"
	wrong_arrows "$tmp"
	rm "$tmp/$1"
}
missed=
bad_arrows=('common/x.c "policy/policy.h"' 'policy/x.c "audit/record.h"' 'audit/x.h "policy/policy.h"' \
	'broker/front_x.c "policy/policy.h"' 'broker/front_x.c "broker/core.h"' \
	'broker/upstream_x.c "policy/policy.h"' 'broker/core_x.c "broker/upstream.h"' \
	'broker/parser_x.c "policy/policy.h"' 'agent/x.c "policy/policy.h"' \
	'agent/sandbox/x.c "agent/model.h"' 'common/x.c <policy/policy.h>' 'common/x.c "x.h"')
for p in "${bad_arrows[@]}"; do
	[ -n "$(planted "${p%% *}" "${p#* }")" ] || missed+="$p"$'\n'
done
if [ -z "$missed" ]; then
	report ok "an include against an arrow is found"
else
	report "not ok" "an include against an arrow is found" "$missed"
fi
wrong=
good_arrows=('common/x.c "common/buf.h"' 'policy/x.c "policy/policy.h"' 'broker/front_x.c "broker/front.h"' \
	'broker/core_x.c "policy/policy.h"' 'broker/core_x.c "audit/record.h"' \
	'broker/parser_x.c "policy/facts.h"' 'agent/x.c "agent/sandbox/sandbox.h"' \
	'cmd/x.c "broker/core_vault.h"' 'common/x.c <stdio.h>')
for p in "${good_arrows[@]}"; do
	[ -z "$(planted "${p%% *}" "${p#* }")" ] || wrong+="$p"$'\n'
done
if [ -z "$wrong" ]; then
	report ok "the nearest allowed include is not"
else
	report "not ok" "the nearest allowed include is not" "$wrong"
fi
if [ -n "$(planted broker/janitor_x.c '"common/buf.h"')" ]; then
	report ok "a process that arrows.txt does not know is found"
else
	report "not ok" "a process that arrows.txt does not know is found"
fi
