/*
 * A look: what core asks a server before it asks people. Runs in upstream. It goes out like any
 * lease, by GET or HEAD alone; of its answer an ETag and a bounded content come to core, and no
 * byte to front. The server is untrusted.
 */
#include "broker/upstream_http_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CONTENT_MAX ((size_t)512 << 10)
#define ETAG_MAX ((size_t)1024)

struct look {
	struct buf etag, content;
	unsigned etags;
	bool over;
};

struct look *
look_new(void)
{
	struct look *k = xcalloc(1, sizeof(*k));

	buf_init(&k->etag, ETAG_MAX);
	buf_init(&k->content, CONTENT_MAX);
	return k;
}

void
look_free(struct look *k)
{
	if (k == NULL)
		return;
	buf_free(&k->etag);
	buf_free(&k->content);
	free(k);
}

/* UF_HEAD; interim ones too. Two ETags are none. */
static void
take_head(struct look *k, struct rd *r)
{
	uint32_t n;

	buf_reset(&k->etag);
	k->etags = 0;
	(void)rd_u16(r);
	n = rd_u32(r);
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct str name = rd_lstr(r), value = rd_lstr(r);

		if (r->bad || !http_name_is(name, "ETag"))
			continue;
		k->etags++;
		if (value.n <= ETAG_MAX)
			buf_put_str(&k->etag, value);
	}
	if (k->etags != 1)
		buf_reset(&k->etag);
}

void
look_take(void *arg, uint16_t type, const struct buf *body)
{
	struct exchange *x = arg;
	struct look *k = x->look;
	struct rd r = rd_init(buf_str(body));
	struct str bytes;

	(void)rd_u64(&r);
	(void)rd_u64(&r);
	if (type == MSG_UF_HEAD)
		take_head(k, &r);
	if (type != MSG_UF_BODY)
		return;
	bytes = rd_lstr(&r);
	if (bytes.n > CONTENT_MAX - k->content.n)
		k->over = true;
	if (!k->over)
		buf_put_str(&k->content, bytes);
}

bool
look_is_over(const struct look *k, struct err *err)
{
	if (k->over)
		(void)err_set(
		    err, ERR_TOO_LARGE, "what was looked at has over %zu bytes", CONTENT_MAX);
	return k->over;
}

void
look_tell(const struct exchange *x)
{
	const struct look *k = x->look;
	AUTO_BUF struct buf b = BUF(CONTENT_MAX + 4096);

	buf_u64(&b, x->conn);
	buf_u64(&b, x->act);
	buf_lstr(&b, buf_str(&k->etag));
	buf_u8(&b, k->over ? 1 : 0);
	buf_lstr(&b, k->over ? STR("") : buf_str(&k->content));
	upstream_hub_core(x->h->hub, MSG_UH_LOOKED, &b);
}
