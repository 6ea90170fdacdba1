/*
 * The environment of a sandbox, made from nothing (process: cofferdam-agent): none of the
 * caller's goes in. Every ecosystem reads its certificates from a variable of its own; those
 * that read the system's file need none (native_etc.c).
 */
#include "agent/sandbox/sandbox_env.h"

#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define RUN_CA "/etc/cofferdam/ca.pem"

static const char *const base_env[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME=/work", "USER=agent",
    "LOGNAME=agent", "SHELL=/bin/bash", "LANG=C.UTF-8", "TMPDIR=/tmp", "TERM=dumb"};

/* Node adds to its own; libpq trusts the broker alone. */
static const char *const ca_env[] = {"SSL_CERT_FILE=" BUNDLE, "SSL_CERT_DIR=/etc/ssl/certs",
    "CURL_CA_BUNDLE=" BUNDLE, "REQUESTS_CA_BUNDLE=" BUNDLE, "GIT_SSL_CAINFO=" BUNDLE,
    "NODE_EXTRA_CA_CERTS=" RUN_CA, "AWS_CA_BUNDLE=" BUNDLE, "PIP_CERT=" BUNDLE,
    "npm_config_cafile=" BUNDLE, "CARGO_HTTP_CAINFO=" BUNDLE, "NIX_SSL_CERT_FILE=" BUNDLE,
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=" BUNDLE, "HTTPLIB2_CA_CERTS=" BUNDLE,
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" BUNDLE, "DENO_CERT=" BUNDLE, "CODEX_CA_CERTIFICATE=" BUNDLE,
    "PGSSLROOTCERT=" RUN_CA};

static void
put(char **env, size_t *n, const char *pair)
{
	size_t len = (size_t)(strchr(pair, '=') - pair) + 1, at = 0;

	while (at < *n && strncmp(env[at], pair, len) != 0)
		at++;
	free(env[at]); /* NULL when new */
	env[at] = xstrdup(pair);
	*n += at == *n;
}

static bool
is_of(const char *const *list, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(list[i]) > name.n && memcmp(list[i], name.p, name.n) == 0 &&
		    list[i][name.n] == '=')
			return true;
	return false;
}

bool
sandbox_env_is_own(struct str name)
{
	return is_of(base_env, ARRAY_LEN(base_env), name) || is_of(ca_env, ARRAY_LEN(ca_env), name);
}

char **
sandbox_env_make(const struct sandbox_spec *s)
{
	char **env =
	    xcalloc(ARRAY_LEN(base_env) + ARRAY_LEN(ca_env) + SANDBOX_ENV_MAX + 1, sizeof(*env));
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(base_env); i++)
		put(env, &n, base_env[i]);
	for (size_t i = 0; s->ca_pem != NULL && i < ARRAY_LEN(ca_env); i++)
		put(env, &n, ca_env[i]);
	for (size_t i = 0; s->env != NULL && s->env[i] != NULL; i++)
		put(env, &n, s->env[i]);
	return env;
}
