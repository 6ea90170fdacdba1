/*
 * The names of a sandbox's targets: there is no name service inside, only this file. Runs in the
 * supervisor, at the start and whenever targets come or go.
 */
#include "agent/sandbox/backend.h"

#include "common/banned.h"

/* A name that several targets share stands once with each of its addresses. */
static bool
named_before(const struct spec_target *t, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (t[k].host != NULL && strcmp(t[k].host, t[i].host) == 0 &&
		    strcmp(t[k].address, t[i].address) == 0)
			return true;
	return false;
}

void
backend_hosts_text(const struct spec_target *t, size_t n, struct buf *out)
{
	buf_put_z(out, "127.0.0.1 localhost sandbox\n::1 localhost\n");
	for (size_t i = 0; i < n; i++)
		if (t[i].host != NULL && !named_before(t, i))
			buf_printf(out, "%s %s\n", t[i].address, t[i].host);
}
