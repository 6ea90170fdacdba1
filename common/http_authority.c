/*
 * Host and port to one spelling, so that what is matched, what is resolved and what is logged are
 * the same text. Runs in front, core and the agent's loop on bytes from hostile clients. Must never
 * let through a spelling that a resolver reads as another name or as an address.
 */
#include <arpa/inet.h>

#include "common/http.h"

#include "common/banned.h"

#define LABEL_MAX 63

static char
lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool
all_of(struct str s, const char *set)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\0' || strchr(set, s.p[i]) == NULL)
			return false;
	return true;
}

/* What inet_aton(3) might read as the last part of an address: "1", "0177", "0x7f". */
static bool
is_number(struct str label)
{
	if (label.n > 1 && label.p[0] == '0' && label.p[1] == 'x')
		return all_of((struct str){label.p + 2, label.n - 2}, "0123456789abcdef");
	return all_of(label, "0123456789");
}

static bool
is_quad(const char *host)
{
	struct in_addr a;
	char again[INET_ADDRSTRLEN];

	return inet_pton(AF_INET, host, &a) == 1 &&
	       inet_ntop(AF_INET, &a, again, sizeof(again)) != NULL && strcmp(host, again) == 0;
}

/* `host` is in lower case, without its last dot. */
static int
check_name(struct str host, struct err *err)
{
	struct str rest = host, label = STR_NONE;

	if (host.n == 0 || host.n > HTTP_HOST_MAX)
		return err_set(
		    err, ERR_SYNTAX, "host: %zu bytes, must be 1 to %d", host.n, HTTP_HOST_MAX);
	if (!all_of(host, "abcdefghijklmnopqrstuvwxyz0123456789-._") || host.p[0] == '-')
		return err_set(err, ERR_SYNTAX, "host: not a name of letters, digits, '-' and '_'");
	for (bool more = true; more;) {
		more = str_cut(&rest, '.', &label);
		if (!more)
			label = rest;
		if (label.n == 0 || label.n > LABEL_MAX)
			return err_set(err, ERR_SYNTAX, "host: a label of %zu bytes, limit %d",
			    label.n, LABEL_MAX);
	}
	if (is_number(label) && !is_quad(host.p))
		return err_set(err, ERR_SYNTAX, "host: a number that is not a dotted quad");
	return 0;
}

static int
read_name(struct str s, char host[HTTP_HOST_SIZE], struct err *err)
{
	char z[HTTP_HOST_SIZE];
	int rc;

	if (s.n != 0 && s.p[s.n - 1] == '.')
		s.n--;
	if (s.n > HTTP_HOST_MAX)
		return err_set(err, ERR_SYNTAX, "host: %zu bytes, limit %d", s.n, HTTP_HOST_MAX);
	for (size_t i = 0; i < s.n; i++)
		z[i] = lower(s.p[i]);
	z[s.n] = '\0';
	rc = check_name((struct str){z, s.n}, err);
	if (rc == 0)
		(void)memcpy(host, z, s.n + 1);
	return rc;
}

/* The canonical text of RFC 5952. A zone would name an interface of ours. */
static int
read_v6(struct str s, char host[HTTP_HOST_SIZE], struct err *err)
{
	char z[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (s.n >= sizeof(z) || !all_of(s, "0123456789abcdefABCDEF:."))
		return err_set(err, ERR_SYNTAX, "host: not an IPv6 address in brackets");
	(void)memcpy(z, s.p, s.n);
	z[s.n] = '\0';
	if (inet_pton(AF_INET6, z, &a) != 1 ||
	    inet_ntop(AF_INET6, &a, host, HTTP_HOST_SIZE) == NULL)
		return err_set(err, ERR_SYNTAX, "host: not an IPv6 address in brackets");
	return 0;
}

/* "host", "host:port" or "[v6]", "[v6]:port" to its parts; *ret_port is STR_NONE for none. */
static int
split(struct str s, bool v6, struct str *ret_name, struct str *ret_port, struct err *err)
{
	*ret_port = STR_NONE;
	if (!v6) {
		if (str_cut(&s, ':', ret_name))
			*ret_port = s;
		else
			*ret_name = s;
		return 0;
	}
	s = (struct str){s.p + 1, s.n - 1};
	if (!str_cut(&s, ']', ret_name) || (s.n != 0 && s.p[0] != ':'))
		return err_set(err, ERR_SYNTAX, "host: not [address] or [address]:port");
	if (s.n != 0)
		*ret_port = (struct str){s.p + 1, s.n - 1};
	return 0;
}

int
http_authority_parse(struct str s, char host[HTTP_HOST_SIZE], uint16_t *port, struct err *err)
{
	bool v6 = s.n != 0 && s.p[0] == '[';
	struct str name, digits;
	uint64_t number = 0;
	int rc = split(s, v6, &name, &digits, err);

	if (rc != 0)
		return rc;
	if (digits.p != NULL && (!str_to_u64(digits, UINT16_MAX, &number) || number == 0))
		return err_set(err, ERR_SYNTAX, "port: not a number from 1 to 65535");
	rc = v6 ? read_v6(name, host, err) : read_name(name, host, err);
	if (rc == 0)
		*port = (uint16_t)number;
	return rc;
}
