/*
 * Lines, fields and framing of HTTP/1.1 heads. Runs in front on bytes from hostile clients, in core
 * on what front says they were. Must never read a byte in two ways: where RFC 9112 leaves it to the
 * recipient how to mend a message, the message is refused.
 */
#include "common/http_head.h"

#include "common/banned.h"

int
http_head_end(struct str in, size_t *scanned, size_t *ret, struct err *err)
{
	size_t end = in.n < HTTP_HEAD_MAX ? in.n : HTTP_HEAD_MAX, i;

	*ret = 0;
	for (i = *scanned; i < end; i++) {
		uint8_t c = (uint8_t)in.p[i];
		bool cr = i > 0 && in.p[i - 1] == '\r';

		if (cr != (c == '\n'))
			return err_set(err, ERR_SYNTAX, "head: a bare %s at byte %zu",
			    cr ? "CR" : "LF", cr ? i - 1 : i);
		if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
			return err_set(
			    err, ERR_SYNTAX, "head: control character 0x%02x at byte %zu", c, i);
		if (c == '\n' && (i == 1 || in.p[i - 2] == '\n')) {
			*scanned = 0;
			*ret = i + 1;
			return 0;
		}
	}
	*scanned = i;
	if (in.n >= HTTP_HEAD_MAX)
		return err_set(err, ERR_TOO_LARGE, "head: no end within %zu bytes", HTTP_HEAD_MAX);
	return 0;
}

int
http_head_check(struct str head, struct err *err)
{
	size_t scanned = 0, end;
	int rc = http_head_end(head, &scanned, &end, err);

	if (rc != 0)
		return rc;
	if (end == 0)
		return err_set(err, ERR_SYNTAX, "head: no empty line at its end");
	if (end != head.n)
		return err_set(err, ERR_SYNTAX, "head: %zu bytes behind its end", head.n - end);
	if (end == 2)
		return err_set(err, ERR_SYNTAX, "head: an empty line at its start");
	return 0;
}

struct str
http_head_line(struct str *rest)
{
	struct str line = STR_NONE;

	if (str_cut(rest, '\n', &line))
		line.n--;
	return line;
}

int
http_head_version(struct str s, unsigned *ret_minor, struct err *err)
{
	if (str_eqz(s, "HTTP/1.1"))
		*ret_minor = 1;
	else if (str_eqz(s, "HTTP/1.0"))
		*ret_minor = 0;
	else if (str_eqz(s, "HTTP/2.0"))
		return err_set(err, ERR_SYNTAX, "HTTP/2 is not spoken here, only HTTP/1.1");
	else
		return err_set(err, ERR_SYNTAX, "the version is not HTTP/1.1 or HTTP/1.0");
	return 0;
}

/* Names with '_' that a gateway would turn into the name of a framing field. */
static bool
is_disguise(struct str name)
{
	return http_name_is(name, "Content_Length") || http_name_is(name, "Transfer_Encoding");
}

/* White space that RFC 9112 allows but known readers of these two fields trip over. */
static bool
has_odd_space(struct str name, struct str value)
{
	return (http_name_is(name, "Content-Length") || http_name_is(name, "Transfer-Encoding")) &&
	       value.n != 0 && memchr(value.p, '\t', value.n) != NULL;
}

/* A control character in the value would not have passed http_head_check. */
static int
read_field(struct str line, size_t at, struct http_field *ret, struct err *err)
{
	struct str name;

	if (line.p[0] == ' ' || line.p[0] == '\t')
		return err_set(err, ERR_SYNTAX, "field %zu: a line begins with white space", at);
	if (!str_cut(&line, ':', &name))
		return err_set(err, ERR_SYNTAX, "field %zu: no colon", at);
	if (!http_is_token(name))
		return err_set(err, ERR_SYNTAX, "field %zu: the name is not a token", at);
	if (is_disguise(name))
		return err_set(
		    err, ERR_SYNTAX, "field %zu: %.*s could be read as framing", at, STR_ARG(name));
	if (has_odd_space(name, line))
		return err_set(err, ERR_SYNTAX, "field %zu: a tab in %.*s", at, STR_ARG(name));
	*ret = (struct http_field){name, str_trim(line)};
	return 0;
}

int
http_head_fields(struct str rest, struct http_field *f, size_t *ret_n, struct err *err)
{
	size_t n = 0;
	int rc;

	for (;;) {
		struct str line = http_head_line(&rest);

		if (line.n == 0)
			break;
		if (n == HTTP_FIELDS_MAX)
			return err_set(
			    err, ERR_TOO_LARGE, "head: more than %d fields", HTTP_FIELDS_MAX);
		rc = read_field(line, n + 1, &f[n], err);
		if (rc != 0)
			return rc;
		n++;
	}
	*ret_n = n;
	return 0;
}

/* --- framing --------------------------------------------------------------------- */

/* Even two equal ones are refused: who reads the first and who reads the last are two readers. */
static int
read_length(const struct http_field *f, size_t n, struct http_framing *r, struct err *err)
{
	const struct http_field *h = http_field_find(f, n, "Content-Length");

	if (h == NULL)
		return 0;
	if (http_field_count(f, n, "Content-Length") != 1)
		return err_set(err, ERR_SYNTAX, "more than one Content-Length");
	if (!str_to_u64(h->value, INT64_MAX, &r->length))
		return err_set(err, ERR_SYNTAX, "Content-Length is not one decimal number");
	r->body = HTTP_BODY_LENGTH;
	return 0;
}

/* Codings before a final `chunked`: the frame is clear, only the coding is not known here. */
static bool
ends_in_chunked(struct str list)
{
	struct str one = STR_NONE;
	size_t chunked = 0;

	while (http_list_next(&list, &one)) {
		if (!http_is_token(one))
			return false;
		chunked += str_ieqz(one, "chunked");
	}
	return chunked == 1 && str_ieqz(one, "chunked");
}

static int
read_coding(
    const struct http_field *f, size_t n, unsigned minor, struct http_framing *r, struct err *err)
{
	const struct http_field *h = http_field_find(f, n, "Transfer-Encoding");

	if (h == NULL)
		return 0;
	if (http_field_count(f, n, "Transfer-Encoding") != 1)
		return err_set(err, ERR_SYNTAX, "more than one Transfer-Encoding");
	if (minor == 0)
		return err_set(err, ERR_SYNTAX, "Transfer-Encoding in HTTP/1.0");
	if (r->body == HTTP_BODY_LENGTH)
		return err_set(err, ERR_SYNTAX, "both Content-Length and Transfer-Encoding");
	r->body = HTTP_BODY_CHUNKED;
	if (str_ieqz(h->value, "chunked"))
		return 0;
	if (ends_in_chunked(h->value))
		return err_set(err, ERR_UNSUPPORTED, "a transfer coding other than chunked");
	return err_set(err, ERR_SYNTAX, "Transfer-Encoding is not \"chunked\"");
}

static int
read_connection(const struct http_field *f, size_t n, struct http_framing *r, struct err *err)
{
	struct str list, one;

	for (size_t i = 0; i < n; i++) {
		if (!http_name_is(f[i].name, "Connection"))
			continue;
		list = f[i].value;
		while (http_list_next(&list, &one)) {
			if (one.n != 0 && !http_is_token(one))
				return err_set(
				    err, ERR_SYNTAX, "Connection is not a list of tokens");
			if (http_field_is_kept(one))
				return err_set(
				    err, ERR_SYNTAX, "Connection names %.*s", STR_ARG(one));
		}
	}
	/* Old clients tell a proxy so; only their wish to close is heeded. */
	r->close = http_field_has(f, n, "Connection", "close") ||
		   http_field_has(f, n, "Proxy-Connection", "close");
	r->keep = http_field_has(f, n, "Connection", "keep-alive");
	return 0;
}

int
http_head_framing(
    const struct http_field *f, size_t n, unsigned minor, struct http_framing *ret, struct err *err)
{
	struct http_framing r = {0};
	int rc = read_length(f, n, &r, err);

	if (rc == 0)
		rc = read_coding(f, n, minor, &r, err);
	if (rc == 0)
		rc = read_connection(f, n, &r, err);
	if (rc == 0)
		*ret = r;
	return rc;
}
