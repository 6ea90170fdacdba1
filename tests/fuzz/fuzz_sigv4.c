/*
 * A request target, a line feed, fields line by line: as a request that is signed for AWS. What is
 * canonical stays so when it is made canonical again, names are in order and each there once. The
 * same bytes as a body in signed chunks: what is read goes out in chunks that hold the same.
 */
#include <assert.h>
#include <stdlib.h>

#include "broker/upstream_rechunk.h"
#include "common/awschunk.h"

#include "common/banned.h"

#define ROOM ((size_t)1 << 20)

static struct str
line_of(struct str *s)
{
	struct str line;

	if (str_cut(s, '\n', &line))
		return line;
	line = *s;
	*s = STR("");
	return line;
}

static void
check_names(struct str names)
{
	struct str last = STR(""), name;
	bool more = true;

	while (more) {
		more = str_cut(&names, ';', &name);
		if (!more)
			name = names;
		assert(str_cmp(last, name) < 0);
		last = name;
	}
}

static void
check_again(const struct sigv4_request *r, const struct buf *canonical)
{
	struct str rest = buf_str(canonical), path, query, method;
	AUTO_BUF struct buf target = BUF(ROOM), again = BUF(ROOM), names = BUF(ROOM);
	struct sigv4_request same = *r;

	method = line_of(&rest);
	path = line_of(&rest);
	query = line_of(&rest);
	assert(str_eq(method, r->method) && path.n != 0 && path.p[0] == '/');
	buf_put_str(&target, path);
	buf_put_c(&target, '?');
	buf_put_str(&target, query);
	same.target = buf_str(&target);
	sigv4_canonical(&same, &again, &names);
	rest = buf_str(&again);
	(void)line_of(&rest);
	if (r->s3)
		assert(str_eq(line_of(&rest), path));
	else
		(void)line_of(&rest); /* escaped at each time */
	assert(str_eq(line_of(&rest), query));
}

static void
canonical(struct str s, bool s3)
{
	static struct http_field f[HTTP_FIELDS_MAX];
	AUTO_BUF struct buf out = BUF(ROOM), names = BUF(ROOM), target = BUF(ROOM);
	struct sigv4_request r = {.method = STR("PUT"),
	    .host = STR("h.example"),
	    .fields = f,
	    .payload = STR("UNSIGNED-PAYLOAD"),
	    .s3 = s3};

	buf_put_c(&target, '/');
	buf_put_str(&target, line_of(&s));
	r.target = buf_str(&target);
	while (s.n != 0 && r.nfields < HTTP_FIELDS_MAX) {
		struct str value = line_of(&s), name;

		if (!str_cut(&value, ':', &name) || !http_is_token(name) || !http_is_value(value))
			continue;
		f[r.nfields++] = (struct http_field){name, value};
	}
	sigv4_canonical(&r, &out, &names);
	assert(!buf_over(&out) && str_has_suffix(buf_str(&out), "\nUNSIGNED-PAYLOAD"));
	check_names(buf_str(&names));
	check_again(&r, &out);
}

static void
chunked(struct str raw)
{
	AUTO_BUF struct buf content = BUF(ROOM), out = BUF(2 * ROOM), back = BUF(ROOM);
	static const uint8_t key[SIGV4_KEY_LEN];
	struct sigv4_scope scope;
	char seed[HASH_HEX_SIZE] = "";
	struct rechunk *r;
	struct awschunk c;
	struct str s = raw, some;
	struct err err = {0};
	int rc = 0;

	awschunk_init(&c);
	while (rc == 0 && s.n != 0)
		rc = awschunk_next(&c, &s, &some, &err);
	if (awschunk_read(raw, c.total, &content, &err) != 0)
		return;
	assert(rc == 1 && s.n == 0);
	assert(sigv4_scope(0, STR("r"), STR("s3"), &scope, &err) == 0);
	r = rechunk_new(&scope, key, seed, content.n);
	for (size_t at = 0; !rechunk_ended(r);) {
		uint8_t to[4096];
		size_t n = rechunk_take(r, to, sizeof(to));

		buf_put(&out, to, n);
		if (n != 0 || rechunk_ended(r))
			continue;
		assert(at < raw.n);
		n = raw.n - at < RECHUNK_PUT_MAX ? raw.n - at : RECHUNK_PUT_MAX;
		assert(rechunk_put(r, str_mem(raw.p + at, n), &err) == 0);
		at += n;
	}
	rechunk_free(r);
	assert(out.n == rechunk_length(content.n));
	assert(awschunk_read(buf_str(&out), content.n, &back, &err) == 0);
	assert(str_eq(buf_str(&back), buf_str(&content)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = str_mem(data, size);

	if (size > 16384)
		return 0;
	canonical(s, true);
	canonical(s, false);
	chunked(s);
	return 0;
}
