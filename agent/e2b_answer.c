/*
 * Answers of the control plane, and what is read of a request (process: a worker of
 * cofferdam-sandboxd). An error says the same in its status, its code and its words, since SDKs
 * make their own errors of the first two and show the third.
 */
#include "agent/e2b.h"

#include <stdio.h>
#include <time.h>

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
e2b_answer_json(struct e2b_request *q, unsigned status, const struct buf *json)
{
	struct err e = {0};

	if (buf_over(json))
		e2b_answer_fail(q, 500, "the answer is too large");
	else
		(void)serve_answer(q->conn, status, "application/json", buf_str(json), &e);
}

void
e2b_answer_none(struct e2b_request *q)
{
	struct err e = {0};

	(void)serve_answer(q->conn, 204, NULL, STR(""), &e);
}

void
e2b_answer_fail(struct e2b_request *q, unsigned status, const char *words)
{
	AUTO_BUF struct buf b = BUF(16384);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "code", status);
	jcs_str_lossy(&j, "message", str_z(words));
	jcs_close(&j);
	e2b_answer_json(q, status, &b);
}

static unsigned
status_of(int code)
{
	switch (code) {
	case ERR_BUSY: return 429;
	case ERR_STATE: return 409;
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT: return 503;
	case ERR_UNSUPPORTED: return 400;
	default: return (unsigned)err_http(code);
	}
}

void
e2b_answer_error(struct e2b_request *q, const struct err *e)
{
	e2b_answer_fail(q, status_of(e->code), e->msg);
}

bool
e2b_body_json(struct e2b_request *q, size_t max, struct json_doc **ret)
{
	AUTO_BUF struct buf b = BUF(max + 1);
	struct err e = {0};
	int rc = serve_body(q->conn, max, &b, &e);

	if (rc == 0)
		rc = json_parse_numbers(b.n != 0 ? buf_str(&b) : STR("{}"), "body", ret, &e);
	if (rc == 0 && json_type(json_root(*ret)) == JSON_OBJECT)
		return true;
	if (rc == 0)
		(void)err_set(&e, ERR_INVALID, "the body must be a JSON object");
	e2b_answer_error(q, &e);
	return false;
}

/* --- the query ------------------------------------------------------------------------- */

bool
e2b_unescape(struct str s, bool plus, struct buf *ret)
{
	for (size_t i = 0; i < s.n; i++) {
		int hi, lo;

		if (s.p[i] != '%') {
			buf_put_c(ret, plus && s.p[i] == '+' ? ' ' : s.p[i]);
			continue;
		}
		if (s.n - i < 3 || (hi = enc_hex_digit(s.p[i + 1])) < 0 ||
		    (lo = enc_hex_digit(s.p[i + 2])) < 0)
			return false;
		buf_u8(ret, (uint8_t)(hi << 4 | lo));
		i += 2;
	}
	return !buf_over(ret);
}

bool
e2b_query(const struct e2b_request *q, const char *name, struct buf *ret)
{
	struct str rest = q->http->query, pair, key;

	while (rest.n != 0) {
		if (!str_cut(&rest, '&', &pair)) {
			pair = rest;
			rest = STR_NONE;
		}
		if (!str_cut(&pair, '=', &key)) {
			key = pair;
			pair = STR_NONE;
		}
		if (str_eqz(key, name))
			return e2b_unescape(pair, true, ret);
	}
	return false;
}

void
e2b_time_put(struct jcs *j, const char *key, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[96];

	(void)gmtime_r(&s, &tm);
	(void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
	    tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
	jcs_z(j, key, text);
}
