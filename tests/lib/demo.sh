# shellcheck shell=bash
# What the acts of the demo share. Sourced; needs $top. Sets T (temporary, gone at the end; KEEP=1
# keeps it), state, cof, BUILD; counts what differs from the story in $bad.
#   say, pass, fail TEXT     check, refuse NAME COMMAND... (must succeed, must fail)
#   people_make NAME...      throwaway keys
#   broker_start, broker_stop
#   wait_pending REGEX       prints the id of the newest open request whose action matches
#   log_body                 the BODY of every record
#   prove_log                both verifiers, and the damage they must find
#   ending                   what is left running; the last line; exit status
BUILD=${BUILD:-$top/build/gcc-opt}
cof=$BUILD/cofferdam
T=$(mktemp -d /tmp/cofferdam-demo.XXXXXX)
chmod 711 "$T"
state=$T/state
bad=0 broker='' run='' also=''

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
pass() { printf '  \033[32mok\033[0m   %s\n' "$*"; }
fail() { bad=$((bad + 1)); printf '  \033[31mFAIL\033[0m %s\n' "$*"; }
check() { # NAME COMMAND...: the command must succeed
	local name=$1
	shift
	if "$@" >"$T/check.out" 2>&1; then pass "$name"; else fail "$name"; sed 's/^/       | /' "$T/check.out" | tail -20; fi
}
refuse() { # NAME COMMAND...: the command must fail
	local name=$1
	shift
	if "$@" >"$T/check.out" 2>&1; then fail "$name"; sed 's/^/       | /' "$T/check.out" | tail -20; else pass "$name"; fi
}
finish() { # $also: process ids of an act's own servers
	local p
	for p in $run $broker $also; do kill "$p" 2>/dev/null; done
	[ -z "$broker" ] || wait "$broker" 2>/dev/null
	! declare -F act_finish >/dev/null || act_finish
	if [ -n "${KEEP:-}" ]; then echo "kept: $T"; else rm -rf "$T"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

people_make() {
	local p
	mkdir -m 700 "$T/keys"
	for p; do ssh-keygen -q -t ed25519 -N '' -C "$p" -f "$T/keys/$p"; done
}
broker_start() {
	"$BUILD/cofferdam-broker" --state "$state" >"$T/broker.log" 2>&1 &
	broker=$!
	for _ in $(seq 100); do "$cof" status --state "$state" >/dev/null 2>&1 && break; sleep 0.1; done
	check "the broker is up" "$cof" status --state "$state"
}
broker_stop() { kill "$broker"; wait "$broker" 2>/dev/null; broker=; }
# The people: they see what is pending and sign, or their signature does not count.
pending() {
	local id last=
	for id in $("$cof" pending --state "$state" --json 2>/dev/null | jq -r '.pending[].id'); do
		# Without the agent's own words behind it.
		! "$cof" show "$id" --state "$state" 2>/dev/null | sed '/^agent says/,$d' | grep -qE "$1" || last=$id
	done
	[ -z "$last" ] || echo "$last"
}
wait_pending() {
	local id
	for _ in $(seq 600); do
		id=$(pending "$1")
		[ -z "$id" ] || { echo "$id"; return 0; }
		kill -0 "$run" 2>/dev/null || return 1
		sleep 0.1
	done
	return 1
}
sign() { "$cof" approve "$1" --state "$state" --as "$2" --key "$T/keys/$2" --yes; }
wait_run() { # the run in the background, to its end; its output indented
	local rc
	for _ in $(seq 600); do kill -0 "$run" 2>/dev/null || break; sleep 0.1; done
	wait "$run"
	rc=$?
	run=
	sed 's/^/  | /' "$T/run.out"
	if [ $rc = 0 ]; then pass "the run ends by itself"; else fail "the run ended with $rc"; fi
}
out() { grep -qE "$1" "$T/run.out"; }

log_body() { cat "$state"/log/seg/*.jsonl | jq -c '.body'; }
count() { # JQ-CONDITION N: at least so many action records
	log_body | jq -s --arg v "$2" "[.[] | select(.type == \"action\" and ($1))] | length | . >= (\$v | tonumber)" | grep -q true
}
unlinked() { # refused actions without a link to the one before
	log_body | jq -s '[.[] | select(.type == "action" and .data.decision.verdict != "allow" and .data.decision.link == null)] | length'
}
verify() { "$cof" log verify "$1" --vkey "$state/keys/log/vkey"; }
verify_py() { python3 "$top/tests/verify_log.py" "$1" "$state/keys/log/vkey"; }
damage() { # NAME WORD PYTHON: what it does to the list of lines
	rm -rf "$T/damaged"
	cp -a "$state/log" "$T/damaged"
	python3 - "$T/damaged" "$3" <<-'PY'
		import glob, sys
		f = sorted(glob.glob(sys.argv[1] + "/seg/*.jsonl"))[0]
		lines = open(f, "rb").read().splitlines(True)
		exec(sys.argv[2])
		open(f, "wb").write(b"".join(lines))
	PY
	for v in verify verify_py; do
		if $v "$T/damaged" >"$T/v.out" 2>&1; then
			fail "$1: $v did not notice"
		elif grep -qiE "$2" "$T/v.out"; then
			pass "$1: $v says \"$(grep -iE "$2" "$T/v.out" | head -1)\""
		else
			fail "$1: $v names something else"
			cat "$T/v.out"
		fi
	done
}
prove_log() {
	if verify "$state/log" >"$T/v.out" 2>&1; then pass "cofferdam log verify: $(tail -1 "$T/v.out")"; else fail "log verify"; cat "$T/v.out"; fi
	if verify_py "$state/log" >"$T/v.out" 2>&1; then pass "the independent verifier: $(tail -1 "$T/v.out")"; else fail "independent verifier"; cat "$T/v.out"; fi
	damage "a flipped byte" changed 'l = bytearray(lines[4]); l[60] ^= 1; lines[4] = bytes(l)'
	damage "a cut tail" 'cut|missing' 'del lines[-3:]'
	damage "a reordered record" 'reorder|order' 'lines[5], lines[6] = lines[6], lines[5]'
}
ending() { # NAME
	local left
	left=$(pgrep -f "$T" || true)
	# shellcheck disable=SC2086 # one a word
	if [ -z "$left" ]; then pass "nothing is left running"; else fail "left running: $left"; ps -o pid,args -p $left; fi
	if [ $bad = 0 ]; then
		printf '\n\033[1;32m%s: every step was as told\033[0m\n' "$1"
		return 0
	fi
	printf '\n\033[1;31m%s: %d steps differ\033[0m\n' "$1" "$bad"
	tail -30 "$T/broker.log"
	return 1
}
