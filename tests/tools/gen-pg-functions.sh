#!/bin/sh
# Writes the lists of what the server itself brings, from a live server that psql reaches
# without arguments (PGHOST, PGUSER ...; a fresh database, no extension but plpgsql):
#   DIR/pg_functions.tbl  functions all of whose overloads are immutable or stable
#   DIR/pg_operators.tbl  operator names
#   DIR/pg_outnames.tbl   names of output columns of such functions
# A name in policy/pg_func_effects.tbl is left out of the first: it has effects of its own.
# usage: tests/tools/gen-pg-functions.sh DIR        (from the top of the tree)
set -eu
export LC_ALL=C
dir=$1
effects=policy/pg_func_effects.tbl
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
q() {
	psql -XAtq -v ON_ERROR_STOP=1 -c "$1"
}
version=$(q "SELECT split_part(current_setting('server_version'), '.', 1)")
sed -n 's/^FN("\([^"]*\)".*/\1/p' "$effects" | sort >"$tmp/known"
sed -n 's/^FN("\([^"]*\)", NONE).*/\1/p' "$effects" | sort >"$tmp/harmless"

q "SELECT CASE nspname WHEN 'pg_catalog' THEN '' ELSE nspname || '.' END || proname
     FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
    WHERE nspname IN ('pg_catalog', 'information_schema')
      AND proname NOT LIKE 'pg\\_event\\_trigger\\_%'
    GROUP BY nspname, proname HAVING bool_and(provolatile <> 'v')" | sort >"$tmp/pure"
comm -23 "$tmp/pure" "$tmp/known" >"$tmp/functions"

q "SELECT DISTINCT CASE nspname WHEN 'pg_catalog' THEN '' ELSE nspname || '.' END || proname
          || '|' || argname
     FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace,
          unnest(proargnames, proargmodes) AS a(argname, argmode)
    WHERE nspname IN ('pg_catalog', 'information_schema')
      AND argmode IN ('o', 'b', 't') AND argname <> ''" | sort -t'|' -k1,1 >"$tmp/out"
sort -u "$tmp/functions" "$tmp/harmless" | join -t'|' - "$tmp/out" | cut -d'|' -f2 |
    sort -u >"$tmp/outnames"
q "SELECT DISTINCT oprname FROM pg_operator
    WHERE oprnamespace = 'pg_catalog'::regnamespace" | sort >"$tmp/operators"

emit() { # FILE WHAT
	printf '/* PostgreSQL %s: %s, in byte order. Written by tests/tools/gen-pg-functions.sh. */\n' \
	    "$version" "$2"
	sed 's/.*/X("&")/' "$tmp/$1"
}
emit functions "functions all of whose overloads are immutable or stable" >"$dir/pg_functions.tbl"
emit operators "operators of pg_catalog" >"$dir/pg_operators.tbl"
emit outnames "output columns of the server's own functions" >"$dir/pg_outnames.tbl"
