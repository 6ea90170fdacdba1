/*
 * HTTP/1.1 response heads. Runs in the agent's loop on the broker's answers, and wherever a head
 * from a server is read again. Strict as with requests: an answer that could end in two places is
 * none.
 */
#include "common/http_head.h"

#include "common/banned.h"

/* "HTTP/1.1 200 OK"; the phrase may be empty, and servers leave its space out. */
static int
read_line(struct http_response *r, struct str line, struct err *err)
{
	struct str version, code;
	uint64_t status;
	int rc;

	if (!str_cut(&line, ' ', &version))
		return err_set(err, ERR_SYNTAX, "status line: no status");
	rc = http_head_version(version, &r->minor, err);
	if (rc != 0)
		return rc;
	if (!str_cut(&line, ' ', &code))
		code = line;
	if (!str_to_u64(code, 999, &status) || status < 100)
		return err_set(err, ERR_SYNTAX, "status line: not a status of three digits");
	r->status = (unsigned)status;
	return 0;
}

/* RFC 9112 6.3. */
static void
read_body(struct http_response *r, bool to_head, const struct http_framing *f)
{
	if (to_head || r->status < 200 || r->status == 204 || r->status == 304) {
		r->body = HTTP_BODY_NONE;
	} else {
		r->body = f->body != HTTP_BODY_NONE ? f->body : HTTP_BODY_CLOSE;
		r->length = f->length;
	}
	r->keep_alive = !f->close && (r->minor == 1 || f->keep) && r->body != HTTP_BODY_CLOSE;
}

int
http_response_parse(struct str head, bool to_head, struct http_response *ret, struct err *err)
{
	struct http_framing f;
	int rc = http_head_check(head, err);

	*ret = (struct http_response){0};
	if (rc == 0)
		rc = read_line(ret, http_head_line(&head), err);
	if (rc == 0)
		rc = http_head_fields(head, ret->fields, &ret->nfields, err);
	if (rc == 0)
		rc = http_head_framing(ret->fields, ret->nfields, ret->minor, &f, err);
	if (rc == 0)
		read_body(ret, to_head, &f);
	else
		*ret = (struct http_response){0};
	return rc;
}
