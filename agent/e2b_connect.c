/*
 * Connect's JSON protocol, as E2B's SDKs speak it to a sandbox (process: a worker of
 * cofferdam-sandboxd): calls are JSON, streams are JSON in envelopes of a flag byte and a length.
 * Strict about both; binary and compressed messages are refused.
 */
#include "agent/e2b.h"

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FLAG_COMPRESSED 1
#define FLAG_END 2
#define HEAD 5
#define KEEPALIVE_S 90

int
e2b_frame_take(struct str *in, struct str *ret, bool *ret_last, struct err *err)
{
	struct rd r = rd_init(*in);
	unsigned flags;
	uint32_t n;

	if (in->n < HEAD)
		return 0;
	flags = rd_u8(&r);
	n = rd_u32(&r);
	if ((flags & FLAG_COMPRESSED) != 0)
		return err_set(err, ERR_UNSUPPORTED, "compressed messages are not taken here");
	if (flags > FLAG_END)
		return err_set(err, ERR_SYNTAX, "envelope: flags 0x%02x are not known", flags);
	if (n > E2B_FRAME_MAX)
		return err_set(err, ERR_TOO_LARGE, "envelope: a message of %u bytes, limit %zu", n,
		    E2B_FRAME_MAX);
	if (r.n < n)
		return 0;
	*ret = rd_bytes(&r, n);
	*ret_last = (flags & FLAG_END) != 0;
	in->p += HEAD + n;
	in->n -= HEAD + n;
	return 1;
}

static const struct {
	int code;
	const char *name;
	unsigned status;
} codes[] = {
    {ERR_NOT_FOUND, "not_found", 404},
    {ERR_EXISTS, "already_exists", 409},
    {ERR_INVALID, "invalid_argument", 400},
    {ERR_SYNTAX, "invalid_argument", 400},
    {ERR_PROTOCOL, "invalid_argument", 400},
    {ERR_TOO_COMPLEX, "invalid_argument", 400},
    {ERR_TOO_LARGE, "resource_exhausted", 429},
    {ERR_BUSY, "resource_exhausted", 429},
    {ERR_DISK_FULL, "resource_exhausted", 429},
    {ERR_DENIED, "permission_denied", 403},
    {ERR_UNAUTHORISED, "unauthenticated", 401},
    {ERR_STATE, "failed_precondition", 400},
    {ERR_UNSUPPORTED, "unimplemented", 501},
    {ERR_TIMEOUT, "deadline_exceeded", 504},
    {ERR_UNAVAILABLE, "unavailable", 503},
};

static size_t
code_row(int code)
{
	size_t i = 0;

	while (i < ARRAY_LEN(codes) && codes[i].code != code)
		i++;
	return i;
}

const char *
e2b_connect_code(int code)
{
	size_t i = code_row(code);

	return i < ARRAY_LEN(codes) ? codes[i].name : "internal";
}

static void
error_put(struct jcs *j, const char *key, const struct err *e)
{
	jcs_open(j, key);
	jcs_z(j, "code", e2b_connect_code(e->code));
	jcs_str_lossy(j, "message", str_z(e->msg));
	jcs_close(j);
}

void
e2b_connect_fail(struct e2b_request *q, const struct err *e)
{
	AUTO_BUF struct buf b = BUF(16384);
	size_t i = code_row(e->code);
	struct jcs j;

	jcs_init(&j, &b);
	error_put(&j, NULL, e);
	e2b_answer_json(q, i < ARRAY_LEN(codes) ? codes[i].status : 500, &b);
}

/* --- streams --------------------------------------------------------------------------- */

static int
frame_put(struct e2b_request *q, unsigned flags, struct str json, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_FRAME_MAX + HEAD);
	int rc;

	if (!serve_answered(q->conn) &&
	    (rc = serve_stream(q->conn, 200, "application/connect+json", err)) != 0)
		return rc;
	buf_u8(&b, (uint8_t)flags);
	buf_u32(&b, (uint32_t)json.n);
	buf_put_str(&b, json);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "a message of %zu bytes", json.n);
	return serve_put(q->conn, buf_str(&b), err);
}

int
e2b_frame_send(struct e2b_request *q, const struct buf *json, struct err *err)
{
	return frame_put(q, 0, buf_str(json), err);
}

void
e2b_frame_end(struct e2b_request *q, const struct err *e)
{
	AUTO_BUF struct buf b = BUF(16384);
	struct err ignored = {0};
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	if (e != NULL)
		error_put(&j, "error", e);
	jcs_close(&j);
	if (frame_put(q, FLAG_END, buf_str(&b), &ignored) == 0)
		(void)serve_end(q->conn, &ignored);
}

static void
refuse(struct e2b_request *q, bool stream, const struct err *e)
{
	if (stream)
		e2b_frame_end(q, e);
	else
		e2b_connect_fail(q, e);
}

/* Behind the one message of a call that only the server streams there is nothing. */
static int
message_of(struct str body, bool stream, struct json_doc **ret, struct err *err)
{
	struct str json = body, in = body;
	bool last = false;
	int rc = 1;

	if (stream)
		rc = e2b_frame_take(&in, &json, &last, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || last || (stream && in.n != 0))
		return err_set(err, ERR_SYNTAX, "envelope: one whole message is wanted");
	rc = json_parse_numbers(json.n != 0 ? json : STR("{}"), "message", ret, err);
	if (rc == 0 && json_type(json_root(*ret)) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "the message must be a JSON object");
	return rc;
}

static bool
type_is(const struct e2b_request *q, const char *want)
{
	struct str type = serve_field_get(q->conn, "Content-Type"), head;

	if (str_cut(&type, ';', &head))
		type = head;
	return str_ieqz(str_trim(type), want);
}

bool
e2b_message(struct e2b_request *q, bool stream, struct json_doc **ret)
{
	AUTO_BUF struct buf b = BUF(E2B_FRAME_MAX + HEAD);
	const char *type = stream ? "application/connect+json" : "application/json";
	struct err e = {0};
	int rc = 0;

	if (!type_is(q, type))
		rc = err_set(&e, ERR_UNSUPPORTED, "the content type must be %s", type);
	if (rc == 0)
		rc = serve_body(q->conn, b.max, &b, &e);
	if (rc == 0)
		rc = message_of(buf_str(&b), stream, ret, &e);
	if (rc != 0)
		refuse(q, stream, &e);
	return rc == 0;
}

/* --- what is said in fields ------------------------------------------------------------------ */

uint64_t
e2b_timeout_ms(const struct e2b_request *q)
{
	uint64_t ms = 0;

	(void)str_to_u64(
	    serve_field_get(q->conn, "Connect-Timeout-Ms"), KEEPER_TIME_MAX * UINT64_C(1000), &ms);
	return ms;
}

uint64_t
e2b_keepalive_s(const struct e2b_request *q)
{
	uint64_t s = 0;

	(void)str_to_u64(serve_field_get(q->conn, "Keepalive-Ping-Interval"), 3600, &s);
	return s != 0 ? s : KEEPALIVE_S;
}

/* By its words alone, as SDKs' own server does: what links make of it is decided inside. */
static void
path_clean(struct str path, struct buf *ret)
{
	size_t at = ret->n;

	while (path.n != 0) {
		struct str part;

		if (!str_cut(&path, '/', &part)) {
			part = path;
			path = STR_NONE;
		}
		if (str_eqz(part, "..")) {
			while (ret->n > at && ret->p[ret->n - 1] != '/')
				ret->n--;
			if (ret->n > at)
				ret->n--;
		} else if (part.n != 0 && !str_eqz(part, ".")) {
			buf_put_c(ret, '/');
			buf_put_str(ret, part);
		}
	}
	if (ret->n == at)
		buf_put_c(ret, '/');
}

bool
e2b_path(struct str path, struct buf *ret)
{
	AUTO_BUF struct buf whole = BUF(8192);

	if (path.n > 4096 || (path.n != 0 && memchr(path.p, '\0', path.n) != NULL))
		return false;
	if (path.n == 0 || path.p[0] != '/') {
		if (path.n != 0 && path.p[0] == '~' && (path.n == 1 || path.p[1] == '/')) {
			path.p++;
			path.n--;
		}
		buf_put_z(&whole, "/work/");
	}
	buf_put_str(&whole, path);
	path_clean(buf_str(&whole), ret);
	buf_put_c(ret, '\0');
	return true;
}

static bool
user_is_known(struct str user)
{
	return user.n == 0 || str_eqz(user, "user") || str_eqz(user, "agent");
}

bool
e2b_user_ok(struct e2b_request *q, bool stream)
{
	AUTO_BUF struct buf user = BUF(512);
	struct str auth = serve_field_get(q->conn, "Authorization"), name = STR_NONE;
	struct err e = {0};

	if (e2b_query(q, "username", &user)) {
		name = buf_str(&user);
	} else if (str_has_prefix(auth, "Basic ")) {
		buf_reset(&user);
		if (enc_unbase64(str_mem(auth.p + 6, auth.n - 6), &user)) {
			struct str text = buf_str(&user);

			if (str_cut(&text, ':', &name) && user_is_known(name))
				return true;
		}
	}
	if (user_is_known(name))
		return true;
	(void)err_set(&e, ERR_INVALID,
	    "there is no user \"%.*s\" in a sandbox: all runs as \"user\", without root",
	    (int)(name.n < 64 ? name.n : 64), name.p);
	refuse(q, stream, &e);
	return false;
}
