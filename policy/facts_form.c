/*
 * Forms to facts: does a name in it change the method? Runs in cofferdam-parser alone, on bytes
 * that the agent chose. Multipart is read strictly (RFC 7578, RFC 2046 5.1): what a lenient server
 * could cut into other parts is refused, not guessed at.
 */
#include "policy/facts.h"

#include "common/jcs.h"
#include "policy/webform.h"

#include "common/banned.h"

struct form {
	bool override;
	unsigned parts;
};

static int
part_add(struct form *f, struct err *err)
{
	if (++f->parts <= FACTS_FORM_PARTS_MAX)
		return 0;
	return err_set(err, ERR_TOO_COMPLEX, "form: more than %d parts", FACTS_FORM_PARTS_MAX);
}

static int
read_urlencoded(struct form *f, struct str body, struct err *err)
{
	struct str name, value;
	int rc = 0;

	while (rc == 0 && webform_next(&body, &name, &value)) {
		rc = part_add(f, err);
		f->override = f->override || webform_overrides(name);
	}
	return rc;
}

/* --- multipart ----------------------------------------------------------------------- */

static int
odd(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "form: %s", what);
}

static void
skip(struct str *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

/* Cuts off what stands before `mark`; false: it is not there. */
static bool
cut_at(struct str *s, struct str mark, struct str *ret_head)
{
	const char *at = s->n >= mark.n && s->n != 0 ? memmem(s->p, s->n, mark.p, mark.n) : NULL;

	if (at == NULL)
		return false;
	*ret_head = str_mem(s->p, (size_t)(at - s->p));
	skip(s, ret_head->n + mark.n);
	return true;
}

/* `; key="value"`; no escapes, since servers do not agree on them. Browsers write %22 instead. */
static bool
read_parameter(struct str *s, struct str *key, struct str *value)
{
	if (!str_has_prefix(*s, ";"))
		return false;
	skip(s, 1);
	*s = str_trim(*s);
	if (!str_cut(s, '=', key) || key->n == 0)
		return false;
	if (!str_has_prefix(*s, "\"")) {
		value->p = s->p;
		for (value->n = 0; value->n < s->n && s->p[value->n] != ';'; value->n++)
			if (strchr(" \t\"\\(),/:<=>?@[]", s->p[value->n]) != NULL)
				return false;
		skip(s, value->n);
		return value->n != 0;
	}
	skip(s, 1);
	if (!str_cut(s, '"', value) || memchr(value->p, '\\', value->n) != NULL)
		return false;
	*s = str_trim(*s);
	return true;
}

/* form-data; name="..." [; filename="..."] [; filename*=...] */
static int
read_disposition(struct form *f, struct str v, struct err *err)
{
	struct str key, value;
	bool named = false, file = false;

	if (v.n < 9 || !str_ieqz((struct str){v.p, 9}, "form-data"))
		return odd(err, "a part is no form-data");
	skip(&v, 9);
	v = str_trim(v);
	while (v.n != 0) {
		if (!read_parameter(&v, &key, &value))
			return odd(err, "a Content-Disposition is malformed");
		if (str_ieqz(key, "name")) {
			if (named)
				return odd(err, "a part has two names");
			named = true;
			f->override = f->override || webform_overrides(value);
		} else if (str_ieqz(key, "filename")) {
			if (file)
				return odd(err, "a part has two filenames");
			file = true;
		} else if (!str_ieqz(key, "filename*")) {
			return odd(err, "a Content-Disposition has an unknown parameter");
		}
	}
	return named ? 0 : odd(err, "a part has no name");
}

static int
read_part_field(struct form *f, struct str line, bool *ret_disposition, struct err *err)
{
	struct str name;

	if (!str_cut(&line, ':', &name))
		return odd(err, "a header line of a part is malformed");
	if (str_ieqz(name, "Content-Disposition")) {
		if (*ret_disposition)
			return odd(err, "a part has two Content-Dispositions");
		*ret_disposition = true;
		return read_disposition(f, str_trim(line), err);
	}
	if (str_ieqz(name, "Content-Type")) {
		line = str_trim(line);
		if (line.n >= 10 && str_ieqz((struct str){line.p, 10}, "multipart/"))
			return odd(err, "a part has parts of its own");
		return 0;
	}
	if (str_ieqz(name, "Content-Transfer-Encoding") || str_ieqz(name, "Content-Length") ||
	    str_ieqz(name, "Content-ID") || str_ieqz(name, "MIME-Version"))
		return 0;
	return odd(err, "a part has an unknown header");
}

/* The header block of a part, without its empty line. */
static int
read_part_head(struct form *f, struct str head, struct err *err)
{
	bool disposition = false;
	int rc = part_add(f, err);

	while (rc == 0 && head.n != 0) {
		struct str line;

		if (!cut_at(&head, STR("\r\n"), &line)) {
			line = head;
			head.n = 0;
		}
		if (line.n != 0 &&
		    (memchr(line.p, '\r', line.n) != NULL || memchr(line.p, '\n', line.n) != NULL ||
			memchr(line.p, '\0', line.n) != NULL))
			return odd(err, "a header line of a part does not end in CR LF");
		rc = read_part_field(f, line, &disposition, err);
	}
	if (rc == 0 && !disposition)
		return odd(err, "a part has no Content-Disposition");
	return rc;
}

/*
 * Every place where "--boundary" stands is the end of a part to some server. So it must be one to
 * all: a line of its own, with a whole header block behind it or the end of the body.
 */
static int
read_multipart(struct form *f, struct str boundary, struct str body, struct err *err)
{
	AUTO_BUF struct buf mark = BUF(128);
	struct str content;
	int rc = 0;

	buf_put_z(&mark, "--");
	buf_put_str(&mark, boundary);
	if (!cut_at(&body, buf_str(&mark), &content) || content.n != 0)
		return odd(err, "the body does not begin with the boundary");
	while (rc == 0 && str_has_prefix(body, "\r\n")) {
		struct str head;

		skip(&body, 2);
		if (!cut_at(&body, STR("\r\n\r\n"), &head))
			return odd(err, "a header of a part does not end");
		content = head;
		if (cut_at(&content, buf_str(&mark), &head))
			return odd(err, "a boundary stands in the header of a part");
		rc = read_part_head(f, content, err);
		if (rc == 0 &&
		    (!cut_at(&body, buf_str(&mark), &content) || !str_has_suffix(content, "\r\n")))
			return odd(err, "a part does not end in a boundary on a line of its own");
	}
	if (rc == 0 && !str_eqz(body, "--") && !str_eqz(body, "--\r\n"))
		return odd(err, "something stands behind a boundary");
	return rc;
}

int
facts_form(struct str content_type, struct str body, struct buf *ret_json, struct err *err)
{
	struct media_type t = media_type_parse(content_type);
	bool multipart = t.media == MEDIA_MULTIPART;
	struct form f = {.override = false};
	struct jcs j;
	int rc;

	if (body.n > FACTS_FORM_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "form: over %zu bytes", FACTS_FORM_MAX);
	if (t.odd || (!multipart && t.media != MEDIA_FORM && t.media != MEDIA_NONE))
		return odd(err, "its Content-Type is not that of a form");
	rc = multipart ? read_multipart(&f, t.boundary, body, err) : read_urlencoded(&f, body, err);
	if (rc != 0)
		return rc;
	jcs_init(&j, ret_json);
	jcs_open(&j, NULL);
	jcs_z(&j, "form", multipart ? "multipart" : "urlencoded");
	jcs_bool(&j, "override", f.override);
	jcs_int(&j, "parts", f.parts);
	jcs_close(&j);
	return 0;
}
