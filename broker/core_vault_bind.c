/*
 * Rules for what a credential is bound to (processes: core reads with them, the command line
 * writes). A secret goes into a request's head: one that could end a line, or a field that
 * frames the message, would let whoever fills the vault write requests.
 */
#include "broker/core_vault_bind.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/cleanup.h"

#include "common/banned.h"

static const struct vault_kind kinds[] = {
    {"postgresql-password", .user = true},
    {"bearer", .http = true},
    {"basic", .http = true, .user = true},
    {"header", .http = true, .field = true},
    {"query", .http = true, .field = true},
    {"aws", .http = true},
};

const struct vault_kind *
vault_kind(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eqz(name, kinds[i].name))
			return &kinds[i];
	return NULL;
}

static bool
of_chars(struct str s, const char *also)
{
	for (size_t i = 0; i < s.n; i++) {
		char ch = s.p[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			(ch >= '0' && ch <= '9') || (ch != '\0' && strchr(also, ch) != NULL)))
			return false;
	}
	return s.n >= 1 && s.n <= VAULT_TEXT_MAX;
}

static bool
text_ok(struct str s)
{
	return s.n >= 1 && s.n <= VAULT_TEXT_MAX && str_is_ascii_print(s) &&
	       memchr(s.p, '"', s.n) == NULL && memchr(s.p, '\\', s.n) == NULL;
}

static bool
is_loopback(struct str host)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr six;
	struct in_addr four;

	if (str_ieqz(host, "localhost") || str_has_suffix(host, ".localhost"))
		return true;
	if (host.n >= sizeof(text))
		return false;
	memcpy(text, host.p, host.n);
	if (inet_pton(AF_INET, text, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static int
scheme_check(const struct vault_bind *b, const struct vault_kind *k, struct err *err)
{
	if (!k->http && !str_eqz(b->scheme, "postgresql"))
		return err_set(err, ERR_UNSUPPORTED,
		    "credential %.*s: scheme of kind %s must be postgresql, is \"%.*s\"",
		    STR_ARG(b->name), k->name, STR_ARG(b->scheme));
	if (!k->http || str_eqz(b->scheme, "https"))
		return 0;
	if (!str_eqz(b->scheme, "http"))
		return err_set(err, ERR_UNSUPPORTED,
		    "credential %.*s: scheme of kind %s must be https or http, is \"%.*s\"",
		    STR_ARG(b->name), k->name, STR_ARG(b->scheme));
	if (!is_loopback(b->host))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: it would go to %.*s in clear text: http is for loopback "
		    "hosts only",
		    STR_ARG(b->name), STR_ARG(b->host));
	return 0;
}

/* Names that say where a message ends, where it goes or who is asked for leave. */
static bool
header_is_taken(struct str f)
{
	static const char *const taken[] = {"connection", "content-length", "cookie", "expect",
	    "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via"};

	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (str_ieqz(f, taken[i]))
			return true;
	return f.n >= 6 && str_ieqz((struct str){f.p, 6}, "proxy-");
}

static int
user_check(const struct vault_bind *b, const struct vault_kind *k, struct err *err)
{
	if (!k->user && b->user.n != 0)
		return err_set(err, ERR_INVALID, "credential %.*s: kind %s has no user",
		    STR_ARG(b->name), k->name);
	if (k->user && !text_ok(b->user))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: kind %s needs a user of 1 to %d printable ASCII characters "
		    "without quote and backslash",
		    STR_ARG(b->name), k->name, VAULT_TEXT_MAX);
	if (k->http && k->user && memchr(b->user.p, ':', b->user.n) != NULL)
		return err_set(err, ERR_INVALID,
		    "credential %.*s: the user of kind basic cannot have a colon",
		    STR_ARG(b->name));
	return 0;
}

static int
field_check(const struct vault_bind *b, const struct vault_kind *k, struct err *err)
{
	bool header = str_eqz(b->kind, "header");

	if (!k->field && b->field.n != 0)
		return err_set(err, ERR_INVALID, "credential %.*s: kind %s has no field",
		    STR_ARG(b->name), k->name);
	if (k->field && !of_chars(b->field, header ? "-_" : "-_.~"))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: kind %s needs a field of 1 to %d of [A-Za-z0-9%s]",
		    STR_ARG(b->name), k->name, VAULT_TEXT_MAX, header ? "_-" : "._~-");
	if (k->field && header && header_is_taken(b->field))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: the field %.*s belongs to the message itself",
		    STR_ARG(b->name), STR_ARG(b->field));
	return 0;
}

static bool
is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n >= VAULT_HTTP_SECRET_MIN;
}

bool
vault_aws_split(struct str secret, struct vault_aws *ret)
{
	struct str rest = secret;

	*ret = (struct vault_aws){.token = STR("")};
	if (!str_cut(&rest, ' ', &ret->id) || !of_chars(ret->id, "_-.") ||
	    ret->id.n > VAULT_AWS_ID_MAX)
		return false;
	ret->token = rest;
	if (str_cut(&ret->token, ' ', &ret->key))
		return is_visible(ret->key) && is_visible(ret->token);
	ret->key = rest;
	ret->token = STR("");
	return is_visible(ret->key);
}

bool
vault_host_covers(struct str bound, struct str host)
{
	struct str end = str_mem(bound.p + 1, bound.n != 0 ? bound.n - 1 : 0), tail = host;

	if (!str_has_prefix(bound, "*."))
		return str_ieq(host, bound);
	if (host.n <= end.n)
		return false;
	tail = str_mem(host.p + host.n - end.n, end.n);
	return vault_host_covers(end, tail);
}

/* "*.eu-west-1.amazonaws.com", never all of a top-level domain. */
static int
host_check(const struct vault_bind *b, struct err *err)
{
	struct str rest = b->host, label;
	bool any = str_has_prefix(b->host, "*.");

	if (!text_ok(b->host))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: host must be 1 to %d printable ASCII characters without "
		    "quote and backslash",
		    STR_ARG(b->name), VAULT_TEXT_MAX);
	if (any)
		(void)str_cut(&rest, '.', &label);
	if (memchr(rest.p, '*', rest.n) != NULL || (any && !str_eqz(b->kind, "aws")))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: only of kind aws the host may be *.NAME, is %.*s",
		    STR_ARG(b->name), STR_ARG(b->host));
	if (any && !str_eqz(rest, "localhost") && memchr(rest.p, '.', rest.n) == NULL)
		return err_set(err, ERR_INVALID,
		    "credential %.*s: behind *. the host must have two labels or more, is %.*s",
		    STR_ARG(b->name), STR_ARG(b->host));
	return 0;
}

/* Never says the value, nor a part of it. */
static int
secret_check(const struct vault_bind *b, const struct vault_kind *k, struct str s, struct err *err)
{
	bool bearer = str_eqz(b->kind, "bearer");
	size_t min = k->http ? VAULT_HTTP_SECRET_MIN : 1;
	struct vault_aws parts;

	if (s.n < min || s.n > VAULT_SECRET_MAX)
		return err_set(err, ERR_INVALID,
		    "credential %.*s: secret must be %zu to %d bytes, has %zu", STR_ARG(b->name),
		    min, VAULT_SECRET_MAX, s.n);
	if (str_eqz(b->kind, "aws") && !vault_aws_split(s, &parts))
		return err_set(err, ERR_INVALID,
		    "credential %.*s: the secret of kind aws must be an access key's id, its "
		    "secret "
		    "key and, if there is one, its session token, with blanks between them",
		    STR_ARG(b->name));
	for (size_t i = 0; k->http && i < s.n; i++) {
		unsigned char ch = (unsigned char)s.p[i];

		if (ch < 0x20 || ch == 0x7f || (ch == ' ' && (i == 0 || i == s.n - 1)) ||
		    (bearer && (ch == ' ' || ch > 0x7e)))
			return err_set(err, ERR_INVALID,
			    "credential %.*s: byte %zu of the secret cannot stand in %s",
			    STR_ARG(b->name), i + 1,
			    bearer ? "a bearer token" : "a header or a URL");
	}
	return 0;
}

int
vault_place_check(const struct vault_bind *b, struct err *err)
{
	const struct vault_kind *k = vault_kind(b->kind);
	int rc;

	if (!of_chars(b->name, "._-"))
		return err_set(err, ERR_INVALID,
		    "credential name \"%.*s\" must be 1 to %d of [A-Za-z0-9._-]", STR_ARG(b->name),
		    VAULT_TEXT_MAX);
	if (k == NULL)
		return err_set(err, ERR_UNSUPPORTED,
		    "credential kind must be postgresql-password, bearer, basic, header, query or "
		    "aws, is \"%.*s\"",
		    STR_ARG(b->kind));
	if ((rc = host_check(b, err)) != 0)
		return rc;
	if (b->port == 0)
		return err_set(err, ERR_INVALID, "credential %.*s: port must be from 1 to 65535",
		    STR_ARG(b->name));
	if ((rc = scheme_check(b, k, err)) != 0 || (rc = user_check(b, k, err)) != 0)
		return rc;
	return field_check(b, k, err);
}

int
vault_bind_check(const struct vault_bind *b, struct str secret, struct err *err)
{
	int rc = vault_place_check(b, err);

	return rc != 0 ? rc : secret_check(b, vault_kind(b->kind), secret, err);
}
