/*
 * Uploads as browsers and SDKs send them (process: a worker of cofferdam-sandboxd). Hostile bytes:
 * heads are bounded, contents are passed on as they come and never kept, and a delimiter is found
 * wherever the stream is cut.
 */
#include "agent/e2b_multipart.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

enum { PREAMBLE, AFTER, HEAD, CONTENT, DONE };

/* --- the boundary ------------------------------------------------------------------------ */

/* The value of `name` in "a; name=value; name2=\"value\"", as it stands. */
static bool
parameter(struct str s, const char *name, struct str *ret)
{
	struct str key;

	while (s.n != 0) {
		struct str value;

		s = str_trim(s);
		if (!str_cut(&s, '=', &key))
			return false;
		key = str_trim(key);
		if (s.n != 0 && s.p[0] == '"') {
			s.p++;
			s.n--;
			if (!str_cut(&s, '"', &value))
				return false;
			s = str_trim(s);
			if (s.n != 0 && s.p[0] != ';')
				return false;
			(void)str_skip(&s, ';');
		} else if (!str_cut(&s, ';', &value)) {
			value = s;
			s = STR_NONE;
		}
		if (str_ieqz(key, name)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

int
multipart_init(struct multipart *m, struct str type, const struct multipart_ops *ops, void *arg,
    struct err *err)
{
	struct str head, boundary;

	*m = (struct multipart){.ops = ops,
	    .arg = arg,
	    .line = BUF(MULTIPART_HEAD_MAX),
	    .head = BUF(MULTIPART_HEAD_MAX)};
	if (!str_cut(&type, ';', &head) || !str_ieqz(str_trim(head), "multipart/form-data"))
		return err_set(err, ERR_INVALID,
		    "the content type must be multipart/form-data with a boundary, or "
		    "application/octet-stream");
	if (!parameter(type, "boundary", &boundary) || boundary.n == 0 ||
	    boundary.n > MULTIPART_BOUNDARY_MAX || !str_is_ascii_print(boundary))
		return err_set(err, ERR_INVALID,
		    "multipart: a boundary is 1 to %d printable characters",
		    MULTIPART_BOUNDARY_MAX);
	m->ndelimiter =
	    (size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%.*s", STR_ARG(boundary));
	/* The first one may stand at the very begin. */
	m->matched = 2;
	return 0;
}

void
multipart_free(struct multipart *m)
{
	buf_free(&m->line);
	buf_free(&m->head);
}

/* --- heads ------------------------------------------------------------------------------- */

/* As forms encode what cannot stand in quotes. */
static void
decoded(struct str s, struct buf *out)
{
	static const struct {
		const char *text;
		char c;
	} rows[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};

	while (s.n != 0) {
		size_t i = 0;

		while (i < ARRAY_LEN(rows) && !str_has_prefix(s, rows[i].text))
			i++;
		buf_put_c(out, i < ARRAY_LEN(rows) ? rows[i].c : s.p[0]);
		s.p += i < ARRAY_LEN(rows) ? 3 : 1;
		s.n -= i < ARRAY_LEN(rows) ? 3 : 1;
	}
}

static int
part_begin(struct multipart *m, struct err *err)
{
	AUTO_BUF struct buf name = BUF(MULTIPART_HEAD_MAX), file = BUF(MULTIPART_HEAD_MAX);
	struct str head = buf_str(&m->head), kind, value;
	bool has_file;

	if (++m->parts > MULTIPART_PARTS_MAX)
		return err_set(err, ERR_TOO_LARGE, "multipart: over %d parts", MULTIPART_PARTS_MAX);
	if (!str_cut(&head, ';', &kind) || !str_ieqz(str_trim(kind), "form-data") ||
	    !parameter(head, "name", &value))
		return err_set(err, ERR_SYNTAX,
		    "multipart: a part without Content-Disposition: form-data; name=...");
	decoded(value, &name);
	has_file = parameter(head, "filename", &value);
	if (has_file)
		decoded(value, &file);
	m->state = CONTENT;
	m->matched = 0;
	return m->ops->begin(m->arg, buf_str(&name),
	    has_file ? str_mem(file.p != NULL ? (const char *)file.p : "", file.n) : STR_NONE, err);
}

static int
line_end(struct multipart *m, struct err *err)
{
	struct str line = buf_str(&m->line), name;
	int rc = 0;

	if (line.n == 0 || line.p[line.n - 1] != '\r')
		return err_set(err, ERR_SYNTAX, "multipart: a line ends with CR LF");
	line.n--;
	if (memchr(line.p, '\r', line.n) != NULL || memchr(line.p, '\0', line.n) != NULL)
		return err_set(err, ERR_SYNTAX, "multipart: a bare CR or NUL in a head");
	if (m->state == AFTER) {
		/* White space behind a delimiter is let pass (RFC 2046 5.1.1). */
		if (str_trim(line).n != 0)
			return err_set(err, ERR_SYNTAX, "multipart: more behind a delimiter");
		m->state = HEAD;
		buf_reset(&m->head);
	} else if (line.n == 0) {
		rc = part_begin(m, err);
	} else {
		if (!str_cut(&line, ':', &name))
			return err_set(err, ERR_SYNTAX, "multipart: a head's line without colon");
		if (str_ieqz(name, "Content-Disposition")) {
			if (m->head.n != 0)
				return err_set(
				    err, ERR_SYNTAX, "multipart: two Content-Dispositions");
			buf_put_str(&m->head, str_trim(line));
		}
	}
	buf_reset(&m->line);
	return rc;
}

static int
line_feed(struct multipart *m, char c, struct err *err)
{
	struct str line;

	if (c == '\n')
		return line_end(m, err);
	buf_put_c(&m->line, c);
	if (buf_over(&m->line))
		return err_set(err, ERR_TOO_LARGE, "multipart: a head's line is over %zu bytes",
		    MULTIPART_HEAD_MAX);
	line = buf_str(&m->line);
	if (m->state == AFTER && str_eqz(line, "--"))
		m->state = DONE;
	return 0;
}

/* --- contents ------------------------------------------------------------------------------ */

static int
emit(struct multipart *m, struct str bytes, struct err *err)
{
	return m->state == CONTENT && bytes.n != 0 ? m->ops->data(m->arg, bytes, err) : 0;
}

/* How much of the delimiter stands at the end of its first n bytes and c: CR begins it and is
 * nowhere else in it, so a mismatch leaves all of it but a CR that begins anew. */
static int
content_feed(struct multipart *m, struct str *in, struct err *err)
{
	size_t i = 0;
	int rc = 0;

	if (m->matched == 0) {
		const char *cr = memchr(in->p, '\r', in->n);

		i = cr != NULL ? (size_t)(cr - in->p) : in->n;
		rc = emit(m, str_mem(in->p, i), err);
	} else if (in->p[0] != m->delimiter[m->matched]) {
		/* What had matched was content. */
		rc = emit(m, str_mem(m->delimiter, m->matched), err);
		m->matched = 0;
	}
	in->p += i;
	in->n -= i;
	if (rc != 0 || in->n == 0 || in->p[0] != m->delimiter[m->matched])
		return rc;
	in->p++;
	in->n--;
	if (++m->matched < m->ndelimiter)
		return 0;
	rc = m->state == CONTENT ? m->ops->end(m->arg, err) : 0;
	m->state = AFTER;
	buf_reset(&m->line);
	return rc;
}

int
multipart_feed(struct multipart *m, struct str bytes, struct err *err)
{
	int rc = 0;

	while (rc == 0 && bytes.n != 0 && m->state != DONE) {
		if (m->state == PREAMBLE || m->state == CONTENT) {
			rc = content_feed(m, &bytes, err);
		} else {
			rc = line_feed(m, bytes.p[0], err);
			bytes.p++;
			bytes.n--;
		}
	}
	return rc;
}

int
multipart_end(const struct multipart *m, struct err *err)
{
	if (m->state == DONE)
		return 0;
	return err_set(err, ERR_SYNTAX, "multipart: the last delimiter is missing");
}
