/*
 * Fuzzes an answer on its way from the server to front. The first byte chooses whether a secret
 * went out and to which method; the rest comes as lines until a head has ended, then as content in
 * small pieces. Front gets frames within their limits, in order, and the secret in none.
 */
#include <assert.h>

#include "broker/upstream_http_answer.h"
#include "common/ipc.h"

#include "common/banned.h"

#define SECRET "s3cr3t-0123456789"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct front {
	bool final, ended, secret;
	struct buf content;
};

static void
must_lack_secret(struct str s)
{
	assert(s.n == 0 || memmem(s.p, s.n, SECRET, sizeof(SECRET) - 1) == NULL);
}

static void
take_head(struct front *f, struct rd *b)
{
	unsigned status = rd_u16(b);
	uint32_t n = rd_u32(b);

	assert(!f->final && status > 100 && status != 101 && status <= 999);
	f->final = status >= 200;
	while (n-- != 0) {
		struct str name = rd_lstr(b), value = rd_lstr(b);

		assert(http_is_token(name) && http_is_value(value));
		assert(!http_name_is(name, "Transfer-Encoding"));
		if (f->secret && !http_name_is(name, "Content-Length"))
			must_lack_secret(value);
	}
}

static void
take_frame(void *arg, uint16_t type, const struct buf *body)
{
	struct front *f = arg;
	struct rd b = rd_init(buf_str(body));

	assert(!f->ended && rd_u64(&b) == 1 && rd_u64(&b) == 2);
	if (type == MSG_UF_HEAD) {
		take_head(f, &b);
	} else if (type == MSG_UF_BODY) {
		struct str s = rd_lstr(&b);

		assert(f->final && s.n != 0 && s.n <= ANSWER_FRAME);
		buf_put_str(&f->content, s);
	} else {
		assert(type == MSG_UF_END && f->final && rd_u8(&b) <= 1);
		f->ended = true;
	}
	assert(rd_end(&b));
}

static bool
feed_heads(struct answer *a, struct str *in, struct err *err)
{
	unsigned head = 0;

	while (in->n != 0 && head < 200) {
		const char *lf = memchr(in->p, '\n', in->n);
		size_t n = lf != NULL ? (size_t)(lf - in->p) + 1 : in->n;

		if (answer_line(a, str_mem(in->p, n), &head, err) != 0) {
			assert(err->code == ERR_UPSTREAM);
			return false;
		}
		*in = str_mem(in->p + n, in->n - n);
	}
	return head >= 200;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct upstream_lease l;
	struct front f = {.content = BUF((size_t)64 << 20)};
	struct scrub_secret secrets[SCRUB_SECRETS_MAX];
	size_t nsecrets;
	struct answer *a;
	struct str in;
	struct hash sha, want;
	struct err err = {0};
	bool ok;

	if (size < 2)
		return 0;
	in = str_mem(data + 1, size - 1);
	f.secret = (data[0] & 1) != 0;
	l = (struct upstream_lease){.conn = 1, .act = 2, .method = STR("GET")};
	if ((data[0] & 2) != 0)
		l.method = STR("HEAD");
	if (f.secret) {
		l.credential = (data[0] & 4) != 0 ? LEASE_BASIC : LEASE_BEARER;
		l.secret = STR(SECRET);
		l.placeholder = STR("cfph_");
	}
	nsecrets = lease_secrets(&l, secrets);
	a = answer_new(&l, nsecrets != 0 ? scrub_set_new(secrets, nsecrets) : NULL, take_frame, &f);
	ok = feed_heads(a, &in, &err);
	for (size_t step = 1 + data[0] / 8U; ok && in.n != 0;) {
		size_t n = in.n < step ? in.n : step;

		ok = answer_content(a, str_mem(in.p, n), &err) == 0;
		in = str_mem(in.p + n, in.n - n);
		if (n % 2 != 0)
			answer_flush(a);
	}
	(void)answer_end(a, ok, &err);
	assert(f.ended == (answer_status(a) != 0) && f.final == f.ended);
	assert(answer_sent(a, &sha) == f.content.n);
	want = hash_sha256(buf_str(&f.content));
	assert(hash_eq(&sha, &want));
	if (f.secret)
		must_lack_secret(buf_str(&f.content));
	answer_free(a);
	buf_free(&f.content);
	return 0;
}
