#!/bin/bash
# What each program can do, read from the linked file itself: the calls it imports, the
# functions it holds, the libraries it needs (DESIGN: processes). TAP. B names the build.
set -euo pipefail
cd "$(dirname "$0")/.."
B=${B:-build/gcc-opt}

FILES='open|open64|openat|openat64|creat|fopen|fopen64|freopen|opendir|mkdir|rename|unlink|unlinkat'
START='fork|vfork|clone|posix_spawnp?|execv|execve|execl|execvp|system|popen|dlopen'
NET='socket|connect|getaddrinfo|gethostbyname'
TLS='SSL_.*|TLS_.*method'

# program | where (import, holds, needs) | has or lacks | regular expression | sentence
table() {
	cat <<-EOF
	broker   import lacks connect            the parent connects to nothing
	broker   import lacks $TLS               the parent speaks no TLS
	broker   holds  lacks policy_.*          the parent judges nothing
	broker   holds  lacks secret_.*          the parent holds no secret
	broker   import has   bind               the parent binds the sockets
	front    import lacks $NET               front makes no connection
	front    import lacks $FILES             front opens no file
	front    import lacks $START             front starts nothing
	front    holds  lacks secret_.*          front has no secret store
	front    holds  lacks policy_eval        front judges nothing
	front    import has   SSL_.*             front speaks TLS
	front    import has   accept4            front accepts
	core     import lacks $NET               core makes no connection
	core     import lacks $TLS               core speaks no TLS
	core     import lacks $START             core starts nothing
	core     import lacks crypto_sign|crypto_sign_(detached|keypair|seed_keypair|final_create)|EVP_DigestSign.*|EVP_PKEY_sign.*|(ECDSA|ED25519)_.*sign.* core cannot sign what people sign
	core     holds  lacks sign_native.*|sign_bytes.* nor does it hold what signs for a person
	core     import has   crypto_sign_verify_detached core verifies signatures
	cmd      holds  has   sign_native        what signs for a person is in the command line
	core     needs  lacks libsqlite3.*       core has no database
	writer   needs  lacks libsqlite3.*       nor has the writer
	cmd      needs  has   libsqlite3.*       the command line has one, for the index of the log
	core     needs  lacks libssl.*           core does not link TLS
	core     holds  has   secret_.*          core has the secret store
	core     holds  has   policy_eval        core judges
	core     holds  lacks space_.*|policy_prove|policy_diff core proves nothing: that is for the command line
	upstream import has   connect            upstream connects
	upstream import lacks $START             upstream starts nothing
	upstream import lacks getaddrinfo|gethostbyname|pthread_create upstream leaves no name to the C library, and has no thread
	upstream holds  lacks policy_eval        upstream judges nothing
	parser   import lacks $NET|accept4?      the parser has no socket
	parser   import lacks $FILES             the parser opens no file
	parser   import lacks $START             the parser starts nothing
	parser   holds  lacks secret_.*          the parser has no secret store
	parser   holds  lacks policy_eval        the parser judges nothing
	parser   needs  lacks libssl.*           the parser does not link TLS
	console  import lacks $NET               the console makes no connection
	console  import lacks $FILES             the console opens no file
	console  import lacks $START             the console starts nothing
	console  holds  lacks secret_.*          the console has no secret store
	console  holds  lacks policy_.*          the console has no policy
	console  holds  lacks sig_.*             the console verifies nothing: core does
	console  import has   SSL_.*             the console speaks TLS
	courier  needs  has   libcurl.*          the courier connects, by libcurl
	courier  import lacks $START             the courier starts nothing
	courier  import lacks getaddrinfo|gethostbyname|pthread_create|accept4?|bind|listen the courier listens to nobody, leaves no name to the C library
	courier  holds  lacks policy_.*|sig_.*   the courier has no policy and verifies nothing
	courier  holds  lacks blob_.*|signer_.*|store_.*|core_.*|vault_.* the courier opens no content, signs no head, writes no log
	courier  holds  lacks upstream_hub_.*|upstream_act.*|upstream_scram.*|upstream_http_send.* of upstream it has the rules for addresses and certificates alone
	writer   import lacks $NET|accept4?      the writer has no socket
	writer   import lacks $TLS               the writer speaks no TLS
	writer   import lacks $START             the writer starts nothing
	writer   needs  lacks libssl.*           the writer does not link TLS
	writer   holds  lacks policy_eval        the writer judges nothing
	witness  import lacks connect|$START|getaddrinfo|gethostbyname|pthread_create the witness connects to nobody and starts nothing
	witness  holds  lacks policy_.*|core_.*|store_.*|signer_.*|blob_key.* it has no policy, and writes and signs no log
	writer   holds  lacks witness_.*         and the writer of a log does not hold what cosigns it
	ics      import lacks $NET|$FILES|$START libical's process opens and starts nothing of its own
	ics      needs  has   libical.*          libical is in that process
	ics      holds  lacks policy_.*|secret_.* which has no policy and no secret store
	cmd      needs  lacks libical.*          and in no other: not in the command line
	core     needs  lacks libical.*          nor in core
	agent    needs  lacks libssl.*           the agent does not link TLS
	agent    holds  lacks policy_eval        the agent judges nothing
	agent    holds  lacks secret_.*          the agent has no secret store
	sandboxd holds  lacks policy_.*|core_.*|vault_.*|secret_.*|signer_.* what serves E2B's SDKs has no policy, no broker and no secret store
	sandboxd import lacks getaddrinfo|gethostbyname|pthread_create it asks no name service, and has no thread
	sandboxd needs  lacks libcurl.*          and connects to nobody beyond this machine's sockets
	mcp      holds  lacks policy_.*|core_.*|secret_.*|sign_.*|sig_.*|blob_.*|upstream_.*|front_.* the MCP server has no policy, no broker, no secret store, and signs nothing
	mcp      import lacks crypto_sign.*|EVP_DigestSign.*|getaddrinfo|gethostbyname|pthread_create nor could it sign; it resolves no name
	mcp      import has   SSL_.*             it speaks TLS to its clients
	sandbox  needs  lacks libssl.*|libcrypto.* the sandbox does not link TLS
	sandbox  holds  lacks policy_eval        the sandbox judges nothing
	sandbox  needs  lacks .*                 the supervisor has nothing to load
	inside   needs  lacks .*                 nor has the helper inside
	init     needs  lacks .*                 nor has pid 1
	init     holds  lacks malloc|printf|__libc_.* pid 1 has no C library
	cofferdam needs  lacks .*                 nor has cofferdam
	cofferdam holds  lacks policy_.*|secret_.*|cJSON_.*|SSL_.*|getpw.*|getaddrinfo cofferdam has no policy, no secret store, no parser of others
	cofferdam holds  has   super_main         cofferdam has the supervisor of one sandbox exec
	agent    holds  lacks super_main         the agent has none
	sandbox  holds  lacks seccomp_.*         the sandbox compiles no system call filter: the build did
	cofferdam holds lacks seccomp_.*         nor does the command line
	sandbox  holds  has   filter_load        the sandbox loads one
	EOF
}

names() { # file, where
	case $2 in
	import) nm -D --undefined-only -- "$1" | awk '{ sub(/@.*/, "", $NF); print $NF }' ;;
	holds) nm --defined-only -- "$1" | awk '{ print $NF }' ;;
	needs) readelf -d -- "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' ;;
	esac
}

n=0
report() { # ok|not ok, sentence, detail
	n=$((n + 1))
	echo "$1 $n - $2"
	[ -z "${3:-}" ] || echo "# ${3//$'\n'/$'\n'# }"
}

programs='broker front core upstream writer parser console courier agent mcp sandboxd sandbox inside cmd ics cofferdam'
echo "1..$(($(table | wc -l) + $(wc -w <<<"$programs") + 1))"
while read -r prog where verb re sentence; do
	file=$B/cofferdam-$prog
	[ "$prog" != cofferdam ] || file=$B/cofferdam
	if ! found=$(names "$file" "$where" 2>&1); then
		report "not ok" "$sentence" "$found"
		continue
	fi
	found=$(grep -xE -- "$re" <<<"$found" || true)
	if [ "$verb" = lacks ] && [ -n "$found" ]; then
		report "not ok" "$sentence" "$file: $where: ${found//$'\n'/ }"
	elif [ "$verb" = has ] && [ -z "$found" ]; then
		report "not ok" "$sentence" "$file: $where: no $re"
	else
		report ok "$sentence"
	fi
done < <(table)

# The sanitized builds load no system call filter; the shipped programs must not be one.
marker='cofferdam: MODE_SANITIZED build'
for prog in $programs; do
	file=$B/cofferdam-$prog
	[ "$prog" != cofferdam ] || file=$B/cofferdam
	if [ -f "$file" ] && ! grep -qaF "$marker" "$file"; then
		report ok "$prog is not a sanitized build"
	else
		report "not ok" "$prog is not a sanitized build"
	fi
done
obj=${B%-*}-asan/common/proc_seccomp.o
if [ ! -f "$obj" ]; then
	report ok "a sanitized build says so # SKIP no $obj"
elif grep -qaF "$marker" "$obj"; then
	report ok "a sanitized build says so"
else
	report "not ok" "a sanitized build says so"
fi
