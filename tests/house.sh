#!/bin/bash
# House rules that no compiler sees, checked on the text of all C sources. TAP.
set -euo pipefail
cd "$(dirname "$0")/.."
DIRS=(common policy audit broker agent cmd tests)

# STR_ARG, TAKE_FD and TAKE_PTR evaluate their argument twice, so rd_lstr() in one would read two
# strings. What may be called there only looks; any other call, and ++, -- or an assignment, is named.
LOOKS='STR|at|attribute|buf_str|json_at|json_get|json_key|json_str|policy_member_str|policy_name'
LOOKS+='|policy_tzdata|replay_attribute|sizeof|str_mem|str_trim|str_z'

# Prints "FILE:LINE: STR_ARG of ARGUMENT" for each of these whose argument may do something,
# beneath directory $1.
# shellcheck disable=SC2016 # the dollars are perl's
doubled() {
	(cd "$1"; find "${DIRS[@]}" -name '*.[ch]' -print0 | sort -z |
		LOOKS=$LOOKS xargs -0 -r perl -0777 -ne '
		# Comments, strings and characters: away, but for their line ends.
		s{/\*.*?\*/|"(?:[^"\\]|\\.)*"|\x27(?:[^\x27\\]|\\.)*\x27}{$& =~ tr/\n//cdr}gse;
		s/^[ \t]*#[ \t]*define[ \t]+(?:STR_ARG|TAKE_\w+)\((?:.*\\\n)*.*//mg;
		while (/\b(STR_ARG|TAKE_FD|TAKE_PTR)\s*(\((?:[^()]++|(?2))*\))/g) {
			my ($name, $arg, $line) = ($1, $2, 1 + (substr($_, 0, $-[0]) =~ tr/\n//));
			next unless $arg =~ /\b(?!(?:$ENV{LOOKS})\b)[A-Za-z_]\w*\s*\(|\)\s*\(/
			    || $arg =~ /\+\+|--|;|(?<![=!<>])=(?!=)/;
			$arg =~ s/\s+/ /g;
			print "$ARGV:$line: $name of $arg\n";
		}')
}

n=0
report() { # sentence, detail lines: none means that it holds
	local ok=ok
	n=$((n + 1))
	[ -z "$2" ] || ok="not ok"
	echo "$ok $n - $1"
	[ -z "$2" ] || echo "# ${2//$'\n'/$'\n'# }"
}

echo "1..3"
report "no argument of STR_ARG, TAKE_FD, TAKE_PTR does anything" "$(doubled .)"

# The test itself: planted effects are found, and their nearest harmless neighbours are not.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "${DIRS[@]/#/$tmp/}"
planted() { # text: what doubled says of it
	printf '%s\n' "$1" >"$tmp/common/x.c"
	doubled "$tmp"
}
missed=
effects=('f("%.*s", STR_ARG(rd_lstr(&r)));' 'f(STR_ARG(pgwire_rd_z(&r)));' 'f(STR_ARG(str_trim(rd_lstr(&r))));'
	$'f(a, STR_ARG(\n\t    rd_lstr(&r)));' 'f(STR_ARG(v[i++]));' 'f(STR_ARG(v[--i]));' 'f(STR_ARG(a = b));'
	'f(STR_ARG(p->next(p)));' 'f(STR_ARG((*next)(p)));' "c = '\"'; f(STR_ARG(rd_lstr(&r))); d = '\"';"
	'f(STR_ARG(a), STR_ARG(rd_lstr(&r)));' 'x = TAKE_FD(m.fds[n++]);' 'x = TAKE_PTR(next(p));')
for p in "${effects[@]}"; do
	[ -n "$(planted "$p")" ] || missed+="$p"$'\n'
done
report "an argument of STR_ARG that does something is found" "$missed"
wrong=
looks=('f("%.*s", STR_ARG(text));' 'x = TAKE_FD(m.fds[n]);' 'return TAKE_PTR(p->q);' 'f(STR_ARG(buf_str(&b)));' 'f(STR_ARG(v[i + 1]), i++);'
	'f(STR_ARG(a.n != 0 ? a : STR("-")));' 'f(STR_ARG(x), rd_lstr(&r));' 'f(STR_ARG(json_str(json_at(v, i))));'
	'f(STR_ARG(json_get(q, "a=b(c);")));' "/* STR_ARG(rd_lstr(&r)), don't */")
for p in "${looks[@]}"; do
	said=$(planted "$p")
	[ -z "$said" ] || wrong+="$said"$'\n'
done
report "the nearest argument that only looks is not" "$wrong"
