/*
 * Reads --base-url (process: cofferdam-agent). The request goes to the broker in any case: the URL
 * only says which of the policy's model targets is meant, and where its API begins.
 */
#include "agent/model_url.h"

#include <stdio.h>
#include <string.h>

#include "common/http.h"
#include "common/xalloc.h"

#include "common/banned.h"

static bool
path_is_plain(struct str path)
{
	struct str part;

	while (path.n != 0 && path.p != NULL) {
		path = (struct str){path.p + 1, path.n - 1}; /* its slash */
		part = path;
		if (memchr(path.p, '/', path.n) != NULL)
			part.n = (size_t)((const char *)memchr(path.p, '/', path.n) - path.p);
		for (size_t i = 0; i < part.n; i++)
			if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789."
				   "_~-",
				part.p[i]) == NULL)
				return false;
		if (part.n == 0 || str_eqz(part, ".") || str_eqz(part, ".."))
			return false;
		path = (struct str){path.p + part.n, path.n - part.n};
	}
	return true;
}

int
model_url_parse(const char *text, struct model_url *ret, struct err *err)
{
	struct str rest = str_z(text), scheme, host, path;
	char name[HTTP_HOST_SIZE];
	uint16_t port = 0;
	bool tls, six;

	if (!str_cut(&rest, ':', &scheme) || !str_has_prefix(rest, "//") ||
	    (!str_eqz(scheme, "https") && !str_eqz(scheme, "http")))
		return err_set(err, ERR_INVALID,
		    "--base-url must be http(s)://HOST[:PORT][/PATH], is \"%s\"", text);
	tls = str_eqz(scheme, "https");
	host = rest = (struct str){rest.p + 2, rest.n - 2};
	path = STR_NONE;
	if (memchr(rest.p, '/', rest.n) != NULL) {
		host.n = (size_t)((const char *)memchr(rest.p, '/', rest.n) - rest.p);
		path = (struct str){rest.p + host.n, rest.n - host.n};
	}
	while (str_has_suffix(path, "/"))
		path.n--;
	if (!path_is_plain(path))
		return err_set(err, ERR_INVALID, "--base-url %s: its path is not plain", text);
	if (http_authority_parse(host, name, &port, err) != 0)
		return err_wrap(err, "--base-url %s", text);
	if (port == 0)
		port = tls ? 443 : 80;
	six = strchr(name, ':') != NULL;
	ret->authority = xasprintf("%s%s%s", six ? "[" : "", name, six ? "]" : "");
	if (!tls || port != 443) {
		AUTO_FREE char *bare = ret->authority;

		ret->authority = xasprintf("%s:%u", bare, (unsigned)port);
	}
	ret->path = str_dup(path);
	return 0;
}

void
model_url_free(struct model_url *u)
{
	free(u->authority);
	free(u->path);
}
