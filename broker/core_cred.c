/*
 * The vault in use (process: core). A credential leaves core in leases only, U_OPEN and UH_SEND,
 * after the action is durable, and is sent only towards the host, port and user it is bound to: a
 * policy that names it for another place does not move it there.
 */
#include "broker/core_cred.h"

#include <errno.h>
#include <sodium.h>

#include "broker/core_plan.h"
#include "common/hash.h"

#include "common/banned.h"

#define FP_BYTES 8
#define AWS_ID_SCRUBBED_MIN 16 /* as upstream has it: a shorter one is found in innocent text */

int
core_cred_find(const struct core *c, const struct policy_target *t, const struct vault_entry **ret,
    struct err *err)
{
	const struct vault_entry *e = c->vault != NULL ? vault_find(c->vault, t->credential) : NULL;
	const char *scheme = t->kind == TARGET_POSTGRES ? "postgresql" : core_plan_scheme(t);

	if (e == NULL)
		return err_set(err, ERR_CONFIG,
		    "the vault has no credential \"%.*s\" (cofferdam credential add)",
		    STR_ARG(t->credential));
	if (strcmp(scheme, e->scheme) != 0 || !vault_host_covers(str_z(e->host), t->host) ||
	    t->port != e->port)
		return err_set(err, ERR_CONFIG,
		    "credential %s is bound to %s://%s:%u, target %.*s is %s://%.*s:%u", e->name,
		    e->scheme, e->host, (unsigned)e->port, STR_ARG(t->id), scheme, STR_ARG(t->host),
		    (unsigned)t->port);
	if (t->kind == TARGET_POSTGRES && !str_eqz(t->user, e->user))
		return err_set(err, ERR_CONFIG,
		    "credential %s is of user %s, target %.*s has user %.*s", e->name, e->user,
		    STR_ARG(t->id), STR_ARG(t->user));
	if ((strcmp(e->kind, "aws") == 0) != (t->kind == TARGET_AWS))
		return err_set(err, ERR_CONFIG,
		    "credential %s is of kind %s: a target of kind aws takes aws, and no other "
		    "does",
		    e->name, e->kind);
	*ret = e;
	return 0;
}

int
core_cred_via(const struct core *c, const struct policy_target *t, const struct vault_entry **ret,
    struct err *err)
{
	const struct vault_entry *e =
	    c->vault != NULL ? vault_find(c->vault, t->via_credential) : NULL;

	if (e == NULL)
		return err_set(err, ERR_CONFIG,
		    "the vault has no credential \"%.*s\" (cofferdam credential add)",
		    STR_ARG(t->via_credential));
	if (strcmp(e->kind, "basic") != 0)
		return err_set(err, ERR_CONFIG,
		    "credential %s is of kind %s, the proxy of target %.*s takes basic", e->name,
		    e->kind, STR_ARG(t->id));
	if (strcmp(t->via_tls ? "https" : "http", e->scheme) != 0 ||
	    !str_ieqz(t->via_host, e->host) || t->via_port != e->port)
		return err_set(err, ERR_CONFIG,
		    "credential %s is bound to %s://%s:%u, the proxy of target %.*s is %.*s",
		    e->name, e->scheme, e->host, (unsigned)e->port, STR_ARG(t->id),
		    STR_ARG(t->via));
	*ret = e;
	return 0;
}

static bool
among(const struct core_others *o, const struct vault_entry *e)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->e[i] == e)
			return true;
	return false;
}

size_t
core_cred_parts(const struct vault_entry *e, struct str ret[CORE_CRED_PARTS])
{
	struct vault_aws a;
	size_t n = 0;

	if (strcmp(e->kind, "aws") != 0 || !vault_aws_split(secret_str(e->secret), &a)) {
		ret[n++] = secret_str(e->secret);
		return n;
	}
	ret[n++] = a.key;
	if (a.token.n != 0)
		ret[n++] = a.token;
	if (a.id.n >= AWS_ID_SCRUBBED_MIN)
		ret[n++] = a.id;
	return n;
}

static int
add(struct core_others *o, const struct vault_entry *own, const struct vault_entry *e,
    struct err *err)
{
	struct str parts[CORE_CRED_PARTS];

	if (e == NULL || e == own || among(o, e))
		return 0;
	if (o->parts + core_cred_parts(e, parts) > CORE_OTHERS_MAX)
		return err_set(err, ERR_TOO_LARGE,
		    "the run has over %d HTTP credentials besides the one that is sent: "
		    "answers cannot be searched for all; give the run fewer targets",
		    CORE_OTHERS_MAX);
	o->parts += core_cred_parts(e, parts);
	o->e[o->n++] = e;
	return 0;
}

int
core_cred_others(const struct core_run *run, const struct vault_entry *own, struct core_others *ret,
    struct err *err)
{
	const struct core *c = run->core;
	struct core_others o = {.parts = 0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && c->policy != NULL && i < run->ntargets; i++) {
		const struct policy_target *t = policy_target(c->policy, str_z(run->targets[i].id));
		const struct vault_entry *e = NULL, *via = NULL;
		struct err none = {0};

		if (t == NULL || !target_kind_is_http(t->kind))
			continue;
		if (t->credential.n != 0)
			(void)core_cred_find(c, t, &e, &none);
		if (t->via_credential.n != 0)
			(void)core_cred_via(c, t, &via, &none);
		rc = add(&o, own, e, err);
		if (rc == 0)
			rc = add(&o, own, via, err);
	}
	if (rc == 0)
		*ret = o;
	return rc;
}

void
core_cred_fingerprint(const struct core *c, struct str secret, char out[17])
{
	uint8_t mac[crypto_auth_hmacsha256_BYTES];
	AUTO_BUF struct buf hex = BUF(2 * FP_BYTES);

	out[0] = '\0';
	if (c->fp_key == NULL)
		return;
	(void)crypto_auth_hmacsha256(
	    mac, (const uint8_t *)secret.p, secret.n, (const uint8_t *)secret_str(c->fp_key).p);
	enc_hex(&hex, str_mem(mac, FP_BYTES));
	memcpy(out, hex.p, hex.n);
	out[hex.n] = '\0';
}

void
core_cred_placeholder(
    const struct core_run *run, struct str credential, char out[CORE_PLACEHOLDER_SIZE])
{
	static const char domain[] = "cofferdam-placeholder/v1"; /* with its NUL */
	AUTO_BUF struct buf text = BUF(4096);
	AUTO_BUF struct buf b = BUF(CORE_PLACEHOLDER_SIZE);
	uint8_t mac[crypto_auth_hmacsha256_BYTES];

	buf_put(&text, domain, sizeof(domain));
	buf_put_str(&text, credential);
	(void)crypto_auth_hmacsha256(mac, text.p, text.n, (const uint8_t *)secret_str(run->key).p);
	buf_put_z(&b, CORE_PLACEHOLDER_PREFIX);
	enc_base32(&b, str_mem(mac, 16));
	memcpy(out, b.p, b.n);
	out[b.n] = '\0';
}

void
core_cred_key(struct core *c, struct secret *key)
{
	static const char domain[] = "cofferdam-credential-fp/v1"; /* with its NUL */
	struct str parts[2] = {str_mem(domain, sizeof(domain)), secret_str(key)};
	struct hash h = hash_sha256_parts(parts, 2);

	secret_free(c->vault_key);
	c->vault_key = key;
	secret_free(c->fp_key);
	c->fp_key = secret_copy(str_mem(h.b, HASH_LEN));
	explicit_bzero(&h, sizeof(h));
}

static int
read_all(int fd, struct buf *b, struct err *err)
{
	off_t at = 0;

	for (;;) {
		uint8_t chunk[16384];
		ssize_t k = pread(fd, chunk, sizeof(chunk), at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading the vault");
		if (k == 0)
			return 0;
		buf_put(b, chunk, (size_t)k);
		at += k;
		if (buf_over(b))
			return err_set(err, ERR_TOO_LARGE, "vault is over %zu bytes", b->max);
	}
}

int
core_cred_load(struct core *c, int vault_fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(VAULT_FILE_MAX);
	struct vault *v = NULL;
	int rc = read_all(vault_fd, &b, err);

	if (rc == 0 && c->vault_key == NULL)
		rc = err_set(err, ERR_CONFIG, "the vault came without its key");
	if (rc == 0)
		rc = vault_open(buf_str(&b), c->vault_key, &v, err);
	if (rc != 0)
		return rc;
	vault_free(c->vault);
	c->vault = v;
	return 0;
}
