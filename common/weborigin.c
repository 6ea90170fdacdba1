/*
 * Reads the origin that the operator gave the console. Runs in the parent, in core and in the
 * console, so that the three mean the same; what a browser sends is compared with the text alone.
 */
#include "common/weborigin.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "common/banned.h"

#define HTTPS_PORT 443

static bool
is_address(const char *host)
{
	struct in6_addr a;

	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

int
weborigin_parse(struct str s, struct weborigin *ret, struct err *err)
{
	static const char scheme[] = "https://";
	const size_t n = sizeof(scheme) - 1;
	struct weborigin o = {.port = 0};
	char text[HTTP_HOST_SIZE + 16];

	if (!str_has_prefix(s, scheme))
		return err_set(err, ERR_INVALID,
		    "origin must be https://HOST or https://HOST:PORT, is \"%.*s\"", STR_ARG(s));
	if (http_authority_parse(str_mem(s.p + n, s.n - n), o.host, &o.port, err) != 0)
		return err_wrap(err, "origin \"%.*s\"", STR_ARG(s));
	if (is_address(o.host))
		return err_set(err, ERR_INVALID,
		    "origin \"%.*s\": the host must be a name, since WebAuthn has no addresses",
		    STR_ARG(s));
	if (o.port == 0)
		(void)snprintf(text, sizeof(text), "%s", o.host);
	else
		(void)snprintf(text, sizeof(text), "%s:%u", o.host, o.port);
	if (o.port == HTTPS_PORT || !str_eqz(str_mem(s.p + n, s.n - n), text))
		return err_set(err, ERR_INVALID,
		    "origin \"%.*s\" must be as browsers write it: lower case, no :%d, nothing "
		    "behind",
		    STR_ARG(s), HTTPS_PORT);
	if (o.port == 0)
		o.port = HTTPS_PORT;
	*ret = o;
	return 0;
}
