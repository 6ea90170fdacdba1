/*
 * zlib over answers that came compressed although they must be read for the credential. Runs in
 * upstream. The server is untrusted: what little becomes too much is refused, since it would have
 * to be held here until front takes it.
 */
#include "broker/upstream_unpack.h"

#include <assert.h>
#include <zlib.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define BITS_EITHER (15 + 32) /* largest window; gzip or zlib, whichever it is */
#define OUT_BYTES 16384

struct unpack {
	z_stream z;
	unpack_fn *fn;
	void *arg;
	bool whole; /* a member has ended, and nothing came behind it */
	uint8_t out[OUT_BYTES];
};

struct unpack *
unpack_new(unpack_fn *fn, void *arg)
{
	struct unpack *u = xcalloc(1, sizeof(*u));

	u->fn = fn;
	u->arg = arg;
	if (inflateInit2(&u->z, BITS_EITHER) != Z_OK)
		fatal("zlib cannot start");
	return u;
}

void
unpack_free(struct unpack *u)
{
	if (u == NULL)
		return;
	(void)inflateEnd(&u->z);
	explicit_bzero(u, sizeof(*u));
	free(u);
}

/* One run of output. gzip may have several members (RFC 1952 section 2.2). */
static int
step(struct unpack *u, size_t *made, struct err *err)
{
	size_t n;
	int rc;

	if (u->whole && inflateReset(&u->z) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot go on");
	u->z.next_out = u->out;
	u->z.avail_out = OUT_BYTES;
	rc = inflate(&u->z, Z_NO_FLUSH);
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
		return err_set(err, ERR_UPSTREAM, "the answer is not compressed as it says");
	u->whole = rc == Z_STREAM_END;
	n = OUT_BYTES - u->z.avail_out;
	*made += n;
	if (*made > UNPACK_MOST)
		return err_set(err, ERR_UPSTREAM,
		    "a compressed answer expands too much to be inspected for the credential");
	if (n != 0)
		u->fn(u->arg, str_mem(u->out, n));
	return 0;
}

int
unpack_feed(struct unpack *u, struct str piece, struct err *err)
{
	size_t made = 0;
	int rc = 0;

	assert(piece.n <= UINT32_MAX);
	u->z.next_in = (Bytef *)(uintptr_t)piece.p;
	u->z.avail_in = (uInt)piece.n;
	do
		rc = step(u, &made, err);
	while (rc == 0 && (u->z.avail_in != 0 || (u->z.avail_out == 0 && !u->whole)));
	return rc;
}

bool
unpack_is_whole(const struct unpack *u)
{
	return u->whole || u->z.total_in == 0;
}
