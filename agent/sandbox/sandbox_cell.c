/*
 * The strict reader of what a context's interpreter says. Runs in the caller. The other side shares
 * its process with hostile code: order, sizes, counts, digits and UTF-8 are checked, and JSON is
 * written here from checked parts, never passed on.
 */
#include "agent/sandbox/sandbox_cell.h"

#include <stdio.h>

#include "common/jcs.h"

#include "common/banned.h"

#define TYPE_MAX 127

void
cell_reader_init(struct cell_reader *c, const struct cell_ops *ops, void *arg)
{
	*c = (struct cell_reader){.ops = ops, .arg = arg, .body = BUF(CELL_BODY_MAX)};
}

void
cell_reader_free(struct cell_reader *c)
{
	buf_free(&c->body);
}

void
cell_begin(struct cell_reader *c, struct str code, struct buf *out)
{
	char head[CELL_HEAD + 1];

	(void)snprintf(head, sizeof(head), "R%010zu\n", code.n);
	buf_put(out, head, CELL_HEAD);
	buf_put_str(out, code);
	c->open = true;
	c->bundles = 0;
	c->bytes = 0;
}

static int
broken(struct err *err, const char *why)
{
	return err_set(err, ERR_PROTOCOL, "sandbox: the interpreter breaks the protocol: %s", why);
}

/* Ten digits at the front of *s. */
static bool
number_take(struct str *s, size_t max, size_t *ret)
{
	size_t n = 0;

	if (s->n < 10)
		return false;
	for (size_t i = 0; i < 10; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		n = n * 10 + (size_t)(s->p[i] - '0');
	}
	s->p += 10;
	s->n -= 10;
	*ret = n;
	return n <= max;
}

static bool
field_take(struct str *s, struct str *ret)
{
	size_t n;

	if (!number_take(s, CELL_BODY_MAX, &n) || n > s->n)
		return false;
	*ret = (struct str){s->p, n};
	s->p += n;
	s->n -= n;
	return str_is_utf8(*ret);
}

/* type "/" subtype of RFC 6838, in lower case. */
static bool
mime_ok(struct str t)
{
	size_t slashes = 0;

	for (size_t i = 0; i < t.n; i++) {
		char ch = t.p[i];

		if (ch == '/' && i != 0 && i + 1 != t.n)
			slashes++;
		else if (!((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ||
			     (i != 0 && strchr(".+-_", ch) != NULL && ch != '\0')))
			return false;
	}
	return t.n <= TYPE_MAX && slashes == 1;
}

static int
bundle_take(struct cell_reader *c, struct str s, struct err *err)
{
	AUTO_BUF struct buf out = BUF(CELL_BODY_MAX * 6 + 4096);
	struct str type, text, last = STR_NONE;
	struct jcs j;
	size_t n = 0;

	c->bytes += s.n;
	if (++c->bundles > CELL_BUNDLES_MAX || c->bytes > CELL_BUNDLE_BYTES_MAX)
		return broken(err, "more displays than one cell may have (1000, 64 MiB)");
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	while (s.n != 0) {
		if (++n > CELL_TYPES_MAX || !field_take(&s, &type) || !field_take(&s, &text) ||
		    !mime_ok(type) || str_cmp(last, type) >= 0)
			return broken(err, "malformed display");
		jcs_key(&j, type);
		jcs_str_lossy(&j, NULL, text);
		last = type;
	}
	jcs_close(&j);
	if (n == 0)
		return broken(err, "an empty display");
	if (c->ops->bundle != NULL)
		c->ops->bundle(c->arg, c->type == 'V', buf_str(&out));
	return 0;
}

static int
end_take(struct cell_reader *c, struct str s, struct err *err)
{
	struct str part[4];
	enum cell_status status = CELL_OK;

	for (size_t i = 0; i < ARRAY_LEN(part); i++)
		if (!field_take(&s, &part[i]))
			return broken(err, "malformed end");
	if (str_eqz(part[0], "error"))
		status = CELL_ERROR;
	else if (str_eqz(part[0], "interrupted"))
		status = CELL_INTERRUPTED;
	else if (!str_eqz(part[0], "ok"))
		return broken(err, "unknown end");
	if (s.n != 0)
		return broken(err, "malformed end");
	c->open = false;
	if (c->ops->end != NULL)
		c->ops->end(c->arg, status, part[1], part[2], part[3]);
	return 0;
}

static int
body_take(struct cell_reader *c, struct err *err)
{
	struct str s = buf_str(&c->body);

	if (c->type == 'H') {
		if (!str_eqz(s, CELL_HELLO))
			return broken(err, "another version");
		c->greeted = true;
		return 0;
	}
	return c->type == 'E' ? end_take(c, s, err) : bundle_take(c, s, err);
}

static int
head_take(struct cell_reader *c, struct err *err)
{
	struct str s = str_mem(c->head + 1, CELL_HEAD - 1);

	c->type = c->head[0];
	if (!number_take(&s, CELL_BODY_MAX, &c->left) || s.p[0] != '\n')
		return broken(err, "malformed head of a frame");
	if (!(c->type == 'H' && !c->greeted) &&
	    !((c->type == 'B' || c->type == 'V' || c->type == 'E') && c->greeted && c->open))
		return broken(err, "a frame that does not belong there");
	buf_reset(&c->body);
	return 0;
}

int
cell_feed(struct cell_reader *c, struct str s, struct err *err)
{
	for (;;) {
		size_t want = c->nhead < CELL_HEAD ? CELL_HEAD - c->nhead : c->left;
		size_t n = s.n < want ? s.n : want;

		if (c->nhead < CELL_HEAD) {
			if (s.n == 0)
				return 0;
			memcpy(c->head + c->nhead, s.p, n);
			c->nhead += n;
			if (c->nhead == CELL_HEAD && head_take(c, err) != 0)
				return ERR_PROTOCOL;
		} else {
			buf_put(&c->body, s.p, n);
			c->left -= n;
			if (c->left != 0)
				return 0;
			c->nhead = 0;
			if (body_take(c, err) != 0)
				return ERR_PROTOCOL;
		}
		s.p += n;
		s.n -= n;
	}
}
