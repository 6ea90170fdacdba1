# shellcheck shell=bash
# A throwaway PostgreSQL 15 for tests: own data directory, loopback only, TLS from a throwaway CA,
# SCRAM only, superuser by unix socket alone. Sourced; needs $T (a temporary directory).
#   pg_start NAME PORT      initdb and start; sets PGSOCK (directory), PGLOG
#   pg_admin [psql args]    psql as superuser over the unix socket
#   pg_log_statements       from here on the server logs every statement
#   pg_stop NAME
PGBIN=/usr/lib/postgresql/15/bin

pg_as() { # run as somebody who is not root: postgres refuses root
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid postgres --regid postgres --init-groups -- "$@"
	else
		"$@"
	fi
}

# tls_ca DIR: throwaway CA; tls_cert DIR NAME: a server certificate for NAME.
tls_ca() {
	mkdir -p "$1"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=throwaway CA" \
	    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
	    -keyout "$1/ca.key" -out "$1/ca.pem" 2>/dev/null
}
tls_cert() {
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
	    -keyout "$1/$2.key" -out "$1/$2.csr" 2>/dev/null
	printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n' "$2" >"$1/$2.ext"
	openssl x509 -req -in "$1/$2.csr" -CA "$1/ca.pem" -CAkey "$1/ca.key" -CAcreateserial -days 2 \
	    -extfile "$1/$2.ext" -out "$1/$2.pem" 2>/dev/null
}

pg_start() { # NAME PORT HOSTNAME
	local d=$T/pg-$1
	PGPORT_=$2 PGSOCK=$d/sock PGLOG=$d/server.log
	tls_ca "$T/tls"
	tls_cert "$T/tls" "$3"
	mkdir -p "$d/data" "$PGSOCK"
	cp "$T/tls/$3.pem" "$d/server.crt"
	cp "$T/tls/$3.key" "$d/server.key"
	chmod 600 "$d/server.key"
	[ "$(id -u)" != 0 ] || { chmod 711 "$T" && chown -R postgres: "$d"; }
	pg_as "$PGBIN/initdb" -D "$d/data" -A trust -U postgres -E UTF8 --locale=C.UTF-8 -N >/dev/null
	pg_as sh -c "cat >'$d/data/pg_hba.conf'" <<-HBA
		local   all all                trust
		hostssl all all 127.0.0.1/32   scram-sha-256
		host    all all 0.0.0.0/0      reject
	HBA
	pg_as sh -c "cat >>'$d/data/postgresql.conf'" <<-CONF
		listen_addresses = '127.0.0.1'
		port = $2
		unix_socket_directories = '$PGSOCK'
		ssl = on
		ssl_cert_file = '$d/server.crt'
		ssl_key_file = '$d/server.key'
		password_encryption = 'scram-sha-256'
		shared_buffers = 32MB
		fsync = off
		log_line_prefix = '%m [%p] %u@%d '
		max_connections = 120
	CONF
	pg_as "$PGBIN/pg_ctl" -D "$d/data" -l "$PGLOG" -w -t 30 -s start
}
pg_admin() {
	"$PGBIN/psql" -X -q -h "$PGSOCK" -p "$PGPORT_" -U postgres -v ON_ERROR_STOP=1 "$@"
}
pg_log_statements() {
	pg_admin -d postgres -c "ALTER SYSTEM SET log_statement='all'" -c "SELECT pg_reload_conf()" >/dev/null
	sleep 0.3
}
pg_stop() {
	[ ! -f "$T/pg-$1/data/postmaster.pid" ] || pg_as "$PGBIN/pg_ctl" -D "$T/pg-$1/data" -m immediate -w -s stop
}
free_port() {
	python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'
}
