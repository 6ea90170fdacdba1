/*
 * One record of the decision log: BODY, its line on disk and its leaf hash. Runs in core,
 * writer, verifier and replay. Lines come from disk and are not trusted: the hash is taken over
 * the stored bytes, never over a re-serialisation of what was parsed.
 */
#include "audit/record.h"

#include <assert.h>
#include <inttypes.h>

#include "audit/canon.h"
#include "common/clock.h"

#include "common/banned.h"

#define SUFFIX ",\"hash\":\""

struct hash
record_leaf(struct str body)
{
	struct str parts[] = {STR("\0"), body};

	return hash_sha256_parts(parts, 2);
}

void
record_line(struct buf *out, struct str body, struct hash *ret_leaf)
{
	char hex[HASH_HEX_SIZE];

	*ret_leaf = record_leaf(body);
	hash_hex(ret_leaf, hex);
	buf_put(out, RECORD_PREFIX, RECORD_PREFIX_LEN);
	buf_put_str(out, body);
	buf_put(out, SUFFIX, sizeof(SUFFIX) - 1);
	buf_put(out, hex, HASH_HEX_SIZE - 1);
	buf_put(out, "\"}\n", 3);
}

int
record_parse_line(struct str line, struct str *ret_body, struct hash *ret_leaf, struct err *err)
{
	struct hash said, is;
	const char *tail;
	struct str body;

	if (line.n == 0 || line.p[line.n - 1] != '\n')
		return err_set(err, ERR_TAMPER, "line does not end");
	if (line.n > RECORD_LINE_MAX)
		return err_set(
		    err, ERR_TAMPER, "line of %zu bytes, limit %zu", line.n, RECORD_LINE_MAX);
	if (line.n < RECORD_PREFIX_LEN + RECORD_SUFFIX_LEN + 1 ||
	    memcmp(line.p, RECORD_PREFIX, RECORD_PREFIX_LEN) != 0)
		return err_set(err, ERR_TAMPER, "line does not begin as a record");
	tail = line.p + line.n - RECORD_SUFFIX_LEN - 1;
	if (memcmp(tail, SUFFIX, sizeof(SUFFIX) - 1) != 0 ||
	    memcmp(line.p + line.n - 3, "\"}\n", 3) != 0 ||
	    !hash_from_hex(str_mem(tail + sizeof(SUFFIX) - 1, HASH_HEX_SIZE - 1), &said))
		return err_set(err, ERR_TAMPER, "line does not end as a record");
	body =
	    str_mem(line.p + RECORD_PREFIX_LEN, line.n - RECORD_PREFIX_LEN - RECORD_SUFFIX_LEN - 1);
	is = record_leaf(body);
	if (!hash_eq(&said, &is))
		return err_set(err, ERR_TAMPER, "hash does not match the record");
	*ret_body = body;
	*ret_leaf = is;
	return 0;
}

/* --- the envelope -------------------------------------------------------------------- */

static bool
charset_ok(struct str s, const char *more, bool upper)
{
	if (s.n == 0 || s.n > 64)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		    (upper && c >= 'A' && c <= 'Z'))
			continue;
		if (c == '\0' || strchr(more, c) == NULL)
			return false;
	}
	return true;
}

bool
record_src_ok(struct str src)
{
	return str_eqz(src, "broker") || str_eqz(src, "agent") || str_eqz(src, "human") ||
	       str_eqz(src, "operator");
}

bool
record_type_ok(struct str type)
{
	return charset_ok(type, "_.", false);
}

bool
record_run_ok(struct str run)
{
	return charset_ok(run, "._-", true);
}

/*
 * The value of the member that must stand next in *left: `,"name":` and a scalar (no scalar of
 * the envelope holds a comma or brace). The first member has a brace instead of the comma.
 */
static bool
take_member(struct str *left, const char *name, struct str *ret)
{
	size_t k = strlen(name), head = k + 4;
	const char *p = left->p, *end;

	if (left->n < head || (p[0] != ',' && p[0] != '{') || p[1] != '"' ||
	    memcmp(p + 2, name, k) != 0 || p[2 + k] != '"' || p[3 + k] != ':')
		return false;
	end = memchr(p + head, ',', left->n - head);
	if (end == NULL) /* the last one */
		end = left->p + left->n - 1;
	*ret = str_mem(p + head, (size_t)(end - p) - head);
	left->n -= (size_t)(end - p);
	left->p = end;
	return true;
}

/* `data` stands where the batch ends; what follows it stays in *left. */
static bool
take_data(struct str *left, struct str data)
{
	const char *end = left->p + left->n;

	if (data.n == 0 || *data.p != '{' || left->n < 8 || memcmp(left->p, ",\"data\":", 8) != 0 ||
	    data.p != left->p + 8)
		return false;
	left->p = data.p + data.n;
	left->n = (size_t)(end - left->p);
	return true;
}

static bool
envelope(struct str body, struct record *r)
{
	struct str left = body, batch, mono, prev, seq, v;
	int64_t us;

	if (!take_member(&left, "batch", &batch) || !take_data(&left, r->data) ||
	    !take_member(&left, "mono", &mono) || !take_member(&left, "prev", &prev))
		return false;
	r->run = STR("");
	if (take_member(&left, "run", &r->run)) {
		r->run = canon_plain(r->run);
		if (!record_run_ok(r->run))
			return false;
	}
	if (!take_member(&left, "seq", &seq) || !take_member(&left, "src", &r->src) ||
	    !take_member(&left, "time", &r->time) || !take_member(&left, "type", &r->type) ||
	    !take_member(&left, "v", &v) || !str_eqz(left, "}"))
		return false;
	r->src = canon_plain(r->src);
	r->time = canon_plain(r->time);
	r->type = canon_plain(r->type);
	return canon_u64(batch, &r->batch) && canon_u64(mono, &r->mono) &&
	       hash_from_hex(canon_plain(prev), &r->prev) && canon_u64(seq, &r->seq) &&
	       record_src_ok(r->src) && record_type_ok(r->type) && r->time.n == 27 &&
	       clock_parse(r->time, &us, NULL) == 0 && str_eqz(v, "1") && r->batch <= r->seq;
}

int
record_parse(struct str body, struct record *ret, struct err *err)
{
	struct record r = {.body = body};

	if (body.n > RECORD_BODY_MAX)
		return err_set(
		    err, ERR_TAMPER, "BODY of %zu bytes, limit %zu", body.n, RECORD_BODY_MAX);
	if (canon_check_member(body, CANON_DEPTH_MAX + 1, "data", &r.data, err) != 0) {
		if (err != NULL)
			err->code = ERR_TAMPER;
		return ERR_TAMPER;
	}
	if (!envelope(body, &r))
		return err_set(err, ERR_TAMPER, "BODY has not the members of a record");
	*ret = r;
	return 0;
}

/* By hand: printf would be a quarter of the cost of an append. */
static void
put_u64(struct buf *out, const char *key, uint64_t n)
{
	char digits[20], *p = digits + sizeof(digits);

	do
		*--p = (char)('0' + n % 10);
	while ((n /= 10) != 0);
	buf_put_z(out, key);
	buf_put(out, p, (size_t)(digits + sizeof(digits) - p));
}

static void
put_text(struct buf *out, const char *key, struct str text)
{
	buf_put_z(out, key);
	buf_put_str(out, text);
	buf_put_c(out, '"');
}

void
record_body(struct buf *out, const struct record *r)
{
	char prev[HASH_HEX_SIZE];

	assert(record_src_ok(r->src) && record_type_ok(r->type));
	assert(r->run.n == 0 || record_run_ok(r->run));
	assert(r->data.n >= 2 && *r->data.p == '{' && r->time.n == 27);
	hash_hex(&r->prev, prev);
	put_u64(out, "{\"batch\":", r->batch);
	buf_put_z(out, ",\"data\":");
	buf_put_str(out, r->data);
	put_u64(out, ",\"mono\":", r->mono);
	put_text(out, ",\"prev\":\"", str_mem(prev, HASH_HEX_SIZE - 1));
	if (r->run.n != 0)
		put_text(out, ",\"run\":\"", r->run);
	put_u64(out, ",\"seq\":", r->seq);
	put_text(out, ",\"src\":\"", r->src);
	put_text(out, ",\"time\":\"", r->time);
	put_text(out, ",\"type\":\"", r->type);
	put_u64(out, ",\"v\":", RECORD_VERSION);
	buf_put_c(out, '}');
}

bool
record_ends(struct str type)
{
	return str_eqz(type, "log.close") || str_eqz(type, "log.full");
}

bool
record_of_start(struct str type)
{
	static const char *const types[] = {
	    "log.open", "log.segment", "log.recovered", "log.full", "log.key"};

	for (size_t i = 0; str_has_prefix(type, "log.") && i < ARRAY_LEN(types); i++)
		if (str_eqz(type, types[i]))
			return true;
	return false;
}
