/*
 * Reads a lease for an HTTP request. Runs in upstream. Core is obeyed, and yet what would not be
 * one request of one meaning on the wire is not sent: core may have been taken over or be wrong.
 */
#include "broker/upstream_http_lease.h"

#include "audit/blob.h"
#include "broker/upstream_files.h"
#include "broker/upstream_http_aws.h"
#include "common/httplease.h"

#include "common/banned.h"

/* --- reading --------------------------------------------------------------------- */

/* A flag or a kind; over its largest value the message is malformed. */
static uint8_t
rd_upto(struct rd *b, uint8_t max)
{
	uint8_t v = rd_u8(b);

	b->bad |= v > max;
	return b->bad ? 0 : v;
}

static void
read_networks(struct rd *b, struct upstream_lease *l)
{
	uint32_t n = rd_u32(b);

	for (; l->nnetworks < n && !b->bad; l->nnetworks++) {
		struct str net = rd_lstr(b);

		if (l->nnetworks < UPSTREAM_NETS_MAX)
			l->networks[l->nnetworks] = net;
	}
}

static void
read_fields(struct rd *b, struct upstream_lease *l)
{
	uint32_t n = rd_u32(b);

	b->bad |= n > HTTP_FIELDS_MAX;
	for (uint32_t i = 0; i < n && !b->bad; i++) {
		l->fields[l->nfields].name = rd_lstr(b);
		l->fields[l->nfields++].value = rd_lstr(b);
	}
}

static void
read_place(struct rd *b, struct upstream_lease *l)
{
	l->conn = rd_u64(b);
	l->act = rd_u64(b);
	l->run = rd_lstr(b);
	l->tls = rd_upto(b, 1) != 0;
	l->host = rd_lstr(b);
	l->port = rd_u32(b);
	l->address = rd_lstr(b);
	read_networks(b, l);
	l->ca = rd_lstr(b);
}

static void
read_request(struct rd *b, struct upstream_lease *l)
{
	struct str sha;

	l->method = rd_lstr(b);
	l->target = rd_lstr(b);
	read_fields(b, l);
	l->body = (enum lease_body)rd_upto(b, LEASE_UPGRADE);
	l->length = rd_u64(b);
	l->content = rd_lstr(b);
	l->expect = rd_upto(b, 1) != 0;
	l->bound = rd_upto(b, 1) != 0;
	sha = rd_bytes(b, HASH_LEN);
	if (!b->bad)
		memcpy(l->sha256.b, sha.p, HASH_LEN);
}

static void
read_others(struct rd *b, struct upstream_lease *l)
{
	uint32_t n = rd_u32(b);

	b->bad |= n > UPSTREAM_OTHERS_MAX;
	for (; l->nothers < n && !b->bad; l->nothers++) {
		struct lease_other *o = &l->others[l->nothers];

		o->secret = rd_lstr(b);
		o->user = rd_lstr(b);
		o->placeholder = rd_lstr(b);
	}
}

static void
read_via(struct rd *b, struct upstream_lease *l)
{
	l->via = (enum lease_via)rd_upto(b, LEASE_VIA_FILES);
	l->via_host = rd_lstr(b);
	l->via_port = rd_u32(b);
	l->via_ca = rd_lstr(b);
	l->via_user = rd_lstr(b);
	l->via_secret = rd_lstr(b);
}

int
lease_read(struct rd *b, struct upstream_lease *ret, struct err *err)
{
	struct upstream_lease *l = ret;

	*l = (struct upstream_lease){0};
	read_place(b, l);
	read_request(b, l);
	l->credential = (enum lease_credential)rd_upto(b, LEASE_AWS);
	l->field = rd_lstr(b);
	l->user = rd_lstr(b);
	l->secret = rd_lstr(b);
	l->placeholder = rd_lstr(b);
	read_others(b, l);
	l->fresh = rd_upto(b, 1) != 0;
	l->seal = rd_u64(b);
	l->kid = rd_lstr(b);
	l->blob_key = rd_lstr(b);
	l->wrap = rd_lstr(b);
	read_via(b, l);
	return rd_end(b) ? 0 : err_set(err, ERR_PROTOCOL, "malformed");
}

/* --- checking -------------------------------------------------------------------- */

static bool
has_zero(struct str s)
{
	return s.n != 0 && memchr(s.p, '\0', s.n) != NULL;
}

static int
check_name(struct str name, uint32_t number, struct err *err)
{
	AUTO_FREE char *z = str_dup(name);
	char host[HTTP_HOST_SIZE];
	struct resolve_addr a;
	uint16_t port;

	if (number == 0 || number > 65535)
		return err_set(err, ERR_CONFIG, "port %u, must be 1 to 65535", number);
	if (strlen(z) == name.n && strchr(z, ':') != NULL && resolve_numeric(z, 0, &a))
		return 0;
	if (http_authority_parse(name, host, &port, err) != 0)
		return err_wrap(err, "host");
	if (port != 0 || !str_eqz(name, host))
		return err_set(err, ERR_CONFIG, "host \"%.*s\" is not in its one spelling, %s",
		    STR_ARG(name), host);
	return 0;
}

static int
check_host(const struct upstream_lease *l, struct err *err)
{
	if (l->nnetworks > UPSTREAM_NETS_MAX)
		return err_set(
		    err, ERR_CONFIG, "%zu networks, at most %d", l->nnetworks, UPSTREAM_NETS_MAX);
	return check_name(l->host, l->port, err);
}

/* A directory is read, and there is nobody to show a credential. */
static int
check_files(const struct upstream_lease *l, struct err *err)
{
	bool get = str_eqz(l->method, "GET") || str_eqz(l->method, "HEAD");

	if (l->via_host.n == 0 || l->via_host.n > UPSTREAM_DIR_NAME_MAX || has_zero(l->via_host))
		return err_set(err, ERR_CONFIG, "a directory is called by 1 to %d bytes",
		    UPSTREAM_DIR_NAME_MAX);
	if (!get || l->body != LEASE_NONE || l->credential != LEASE_OPEN || l->address.n != 0 ||
	    l->nnetworks != 0 || l->via_secret.n + l->via_user.n + l->via_ca.n != 0)
		return err_set(err, ERR_CONFIG,
		    "a directory takes GET and HEAD alone, without body, credential and address");
	return 0;
}

/* Through a proxy goes TLS alone, and the proxy resolves the name: no address is held to rules. */
static int
check_via(const struct upstream_lease *l, struct err *err)
{
	if (l->via == LEASE_DIRECT)
		return l->via_host.n + l->via_secret.n + l->via_user.n + l->via_ca.n == 0
			   ? 0
			   : err_set(err, ERR_CONFIG, "the parts of a proxy without a proxy");
	if (l->via == LEASE_VIA_FILES)
		return check_files(l, err);
	if (check_name(l->via_host, l->via_port, err) != 0)
		return err_wrap(err, "the proxy");
	if (!l->tls || l->address.n != 0 || l->nnetworks != 0)
		return err_set(err, ERR_CONFIG,
		    "through a proxy goes TLS alone, without an address and networks");
	if (l->via_secret.n > UPSTREAM_SECRET_MAX || l->via_user.n > UPSTREAM_SECRET_MAX ||
	    (l->via_secret.n == 0 && l->via_user.n != 0) ||
	    (l->via_user.n != 0 && memchr(l->via_user.p, ':', l->via_user.n) != NULL) ||
	    has_zero(l->via_user) || has_zero(l->via_secret))
		return err_set(err, ERR_CONFIG, "the proxy's credential is not of the form of one");
	return 0;
}

static bool
target_ok(struct str t)
{
	if (t.n == 0 || t.n > HTTP_TARGET_MAX || (t.p[0] != '/' && !str_eqz(t, "*")))
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= ' ' || t.p[i] > '~' || t.p[i] == '#')
			return false;
	return true;
}

/* What upstream writes itself, or what belongs to one connection alone. */
static bool
is_ours(const struct upstream_lease *l, struct str name)
{
	return http_name_is(name, "Host") || http_name_is(name, "Content-Length") ||
	       http_name_is(name, "Expect") || http_field_is_hop(l->fields, l->nfields, name) ||
	       (l->credential == LEASE_HEADER && name.n != 0 && str_ieq(l->field, name)) ||
	       ((l->credential == LEASE_BEARER || l->credential == LEASE_BASIC) &&
		   http_name_is(name, "Authorization")) ||
	       (l->credential == LEASE_AWS && aws_field_is_ours(name));
}

static int
check_head(const struct upstream_lease *l, struct err *err)
{
	unsigned protocols = 0;

	if (!http_is_token(l->method) || l->method.n > HTTP_METHOD_MAX ||
	    str_eqz(l->method, "CONNECT"))
		return err_set(err, ERR_CONFIG, "method of %zu bytes is none to send", l->method.n);
	if (!target_ok(l->target))
		return err_set(
		    err, ERR_CONFIG, "request target of %zu bytes is none to send", l->target.n);
	for (size_t i = 0; i < l->nfields; i++) {
		const struct http_field *f = &l->fields[i];

		if (!http_is_token(f->name) || !http_is_value(f->value) ||
		    str_trim(f->value).n != f->value.n)
			return err_set(
			    err, ERR_CONFIG, "field %zu is not of the form of one", i + 1);
		if (l->body == LEASE_UPGRADE && http_name_is(f->name, "Upgrade"))
			protocols += http_is_protocol(f->value) ? 1 : 2;
		else if (is_ours(l, f->name))
			return err_set(
			    err, ERR_CONFIG, "field %.*s is not to be leased", STR_ARG(f->name));
	}
	if (protocols != (l->body == LEASE_UPGRADE ? 1u : 0u))
		return err_set(err, ERR_CONFIG, "an upgrade is to exactly one protocol");
	return 0;
}

static int
check_body(const struct upstream_lease *l, struct err *err)
{
	if ((l->body == LEASE_NONE && l->length != 0) ||
	    (l->body != LEASE_INLINE && l->content.n != 0) ||
	    (l->body == LEASE_INLINE && l->content.n != l->length) || l->length > INT64_MAX)
		return err_set(err, ERR_CONFIG, "body of kind %d: length %llu, %zu bytes inline",
		    (int)l->body, (unsigned long long)l->length, l->content.n);
	if (l->body == LEASE_UPGRADE && (l->bound || l->expect || str_eqz(l->method, "HEAD")))
		return err_set(err, ERR_CONFIG, "an upgrade is asked for without a body");
	if (l->body != LEASE_NONE && l->length != 0 && str_eqz(l->method, "HEAD"))
		return err_set(err, ERR_UNSUPPORTED, "a HEAD request with a body");
	return 0;
}

static bool
parameter_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("#%&+=", s.p[i]) != NULL)
			return false;
	return s.n != 0;
}

static int
check_credential(const struct upstream_lease *l, struct err *err)
{
	bool ok = true;

	if (l->credential == LEASE_OPEN)
		return 0;
	if (l->secret.n == 0 || l->secret.n > UPSTREAM_SECRET_MAX)
		return err_set(err, ERR_CONFIG, "the credential has %zu bytes, must be 1 to %zu",
		    l->secret.n, UPSTREAM_SECRET_MAX);
	switch (l->credential) {
	case LEASE_OPEN: break;
	case LEASE_BEARER:
		ok = http_is_value(l->secret) && str_trim(l->secret).n == l->secret.n;
		break;
	case LEASE_BASIC: /* RFC 7617 section 2 */
		ok = l->user.n <= UPSTREAM_SECRET_MAX &&
		     (l->user.n == 0 || memchr(l->user.p, ':', l->user.n) == NULL);
		break;
	case LEASE_HEADER:
		ok = http_is_token(l->field) && !http_field_is_hop(NULL, 0, l->field) &&
		     !http_name_is(l->field, "Host") && !http_name_is(l->field, "Content-Length") &&
		     !http_name_is(l->field, "Expect") && http_is_value(l->secret) &&
		     str_trim(l->secret).n == l->secret.n;
		break;
	case LEASE_QUERY: ok = parameter_ok(l->field) && l->target.p[0] == '/'; break;
	case LEASE_AWS: ok = aws_credential_ok(l); break;
	}
	return ok ? 0
		  : err_set(err, ERR_CONFIG,
			"the credential cannot stand in a request: its field or its bytes");
}

static int
check_others(const struct upstream_lease *l, struct err *err)
{
	for (size_t i = 0; i < l->nothers; i++) {
		const struct lease_other *o = &l->others[i];

		if (o->secret.n == 0 || o->secret.n > UPSTREAM_SECRET_MAX ||
		    o->user.n > UPSTREAM_SECRET_MAX)
			return err_set(err, ERR_CONFIG,
			    "credential %zu of the run has %zu bytes, must be 1 to %zu", i + 1,
			    o->secret.n, UPSTREAM_SECRET_MAX);
	}
	return 0;
}

int
lease_check(const struct upstream_lease *l, struct err *err)
{
	int rc = check_host(l, err);

	if (rc == 0)
		rc = check_via(l, err);
	if (rc == 0)
		rc = check_head(l, err);
	if (rc == 0)
		rc = check_body(l, err);
	if (rc == 0)
		rc = check_credential(l, err);
	if (rc == 0)
		rc = check_others(l, err);
	if (rc == 0 && l->seal != 0 &&
	    (l->kid.n == 0 || l->blob_key.n != BLOB_KEY_LEN || l->wrap.n != BLOB_WRAP_LEN))
		rc = err_set(err, ERR_CONFIG, "the answer is to be sealed without a key");
	return rc;
}

size_t
lease_secrets(const struct upstream_lease *l, struct scrub_secret *ret)
{
	bool named = l->via_secret.n == 0; /* among the others, as core has it */
	size_t n = 0;

	if (l->credential == LEASE_AWS)
		n = aws_secrets(l, ret);
	else if (l->credential != LEASE_OPEN)
		ret[n++] = (struct scrub_secret){
		    l->secret, l->user, l->placeholder, l->credential == LEASE_BASIC};
	for (size_t i = 0; i < l->nothers; i++) {
		named |= str_eq(l->others[i].secret, l->via_secret) &&
			 str_eq(l->others[i].user, l->via_user);
		ret[n++] = (struct scrub_secret){l->others[i].secret, l->others[i].user,
		    l->others[i].placeholder, l->others[i].user.n != 0};
	}
	if (!named)
		ret[n++] = (struct scrub_secret){l->via_secret, l->via_user, STR(""), true};
	return n;
}

struct hash
lease_hash(const struct upstream_lease *l)
{
	return http_lease_hash(l->method, l->target, l->fields, l->nfields);
}

void
lease_authority(const struct upstream_lease *l, struct buf *out)
{
	bool v6 = memchr(l->host.p, ':', l->host.n) != NULL;

	buf_printf(out, v6 ? "[%.*s]" : "%.*s", STR_ARG(l->host));
	if (l->port != (l->tls ? 443u : 80u))
		buf_printf(out, ":%u", l->port);
}
