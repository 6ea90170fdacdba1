/*
 * Reads JSON that a supervisor or a program inside wrote (the command line, as the person who types
 * it). Over the strict scan alone, without a parser's library, so that it links statically. Values
 * are addressed by their place in document order.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

struct cli_doc {
	char *text;
	size_t n;
	struct json *v; /* str and key are as they are written; "" is no key */
};

/* Behind the string whose first quote is at `i`. */
static size_t
string_end(const char *text, size_t i)
{
	for (i++; text[i] != '"'; i++)
		i += text[i] == '\\';
	return i + 1;
}

/*
 * Notes where value i and all in it stand. The scan has seen all of it, so neither bounds nor depth
 * are in question. Returns the value behind it.
 */
static size_t
place(struct cli_doc *d, size_t i, bool member, size_t *ret_end)
{
	struct json *v = &d->v[i];
	size_t at = v->off, end, next = i + 1;

	if (member) {
		end = string_end(d->text, at);
		v->key = str_mem(d->text + at + 1, end - at - 2);
		at = end + strspn(d->text + end, " \t\r\n:");
	}
	end = at + 1;
	if (v->type == JSON_STRING) {
		end = string_end(d->text, at);
	} else if (v->type == JSON_ARRAY || v->type == JSON_OBJECT) {
		for (uint32_t k = 0; k < v->count; k++)
			next = place(d, next, v->type == JSON_OBJECT, &end);
		end += strcspn(d->text + end, "]}") + 1;
	} else {
		end = at + strcspn(d->text + at, ",]} \t\r\n");
	}
	v->str = str_mem(d->text + at, end - at);
	*ret_end = end;
	return next;
}

int
cli_json_parse(struct str text, struct cli_doc **ret, struct err *err)
{
	AUTO(cli_doc) struct cli_doc *d = xcalloc(1, sizeof(*d));
	size_t end;
	int rc;

	d->text = str_dup(text);
	rc = json_scan(str_mem(d->text, text.n), "answer", true, &d->v, &d->n, err);
	if (rc != 0)
		return rc;
	(void)place(d, 0, false, &end);
	*ret = TAKE_PTR(d);
	return 0;
}

void
cli_json_free(struct cli_doc *d)
{
	if (d == NULL)
		return;
	free(d->v);
	free(d->text);
	free(d);
}

/* The value behind this one and all that is in it. */
static size_t
behind(const struct cli_doc *d, size_t v)
{
	size_t open = 1;

	for (; open != 0; v++)
		open += (size_t)d->v[v].count - 1;
	return v;
}

size_t
cli_json_count(const struct cli_doc *d, size_t v)
{
	return v < d->n ? d->v[v].count : 0;
}

size_t
cli_json_at(const struct cli_doc *d, size_t v, size_t i)
{
	size_t at = v + 1;

	if (v >= d->n || i >= d->v[v].count)
		return CLI_NONE;
	while (i-- != 0)
		at = behind(d, at);
	return at;
}

size_t
cli_json_get(const struct cli_doc *d, size_t v, const char *key)
{
	if (v >= d->n || d->v[v].type != JSON_OBJECT)
		return CLI_NONE;
	for (size_t i = 0, at = v + 1; i < d->v[v].count; i++, at = behind(d, at))
		if (str_eqz(d->v[at].key, key))
			return at;
	return CLI_NONE;
}

int64_t
cli_json_int(const struct cli_doc *d, size_t v)
{
	return v < d->n && d->v[v].type == JSON_INT ? strtoll(d->v[v].str.p, NULL, 10) : 0;
}

/* What is beyond ASCII and escaped stays as it is written: this is for people. */
static size_t
escape_put(const char *p, struct buf *out)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at = strchr(from, *p);
	char hex[5] = {0};
	unsigned long u;

	if (*p != 'u') {
		buf_put_c(out, at != NULL ? to[at - from] : *p);
		return 1;
	}
	memcpy(hex, p + 1, 4);
	u = strtoul(hex, NULL, 16);
	if (u < 0x80)
		buf_put_c(out, (char)u);
	else
		buf_printf(out, "\\u%s", hex);
	return 5;
}

char *
cli_json_text(const struct cli_doc *d, size_t v)
{
	AUTO_BUF struct buf out = BUF((size_t)16 << 20);
	struct str s = v < d->n ? d->v[v].str : STR_NONE;

	if (v >= d->n || d->v[v].type != JSON_STRING)
		return str_dup(s);
	for (size_t i = 1; i + 1 < s.n;) {
		if (s.p[i] != '\\') {
			buf_put_c(&out, s.p[i++]);
			continue;
		}
		i += 1 + escape_put(s.p + i + 1, &out);
	}
	return buf_dup_z(&out);
}

/* --- for people ------------------------------------------------------------------------------ */

static void
print_at(const struct cli_doc *d, size_t v, int indent)
{
	for (size_t i = 0; i < d->v[v].count; i++) {
		size_t at = cli_json_at(d, v, i);
		bool nested = (d->v[at].type == JSON_OBJECT || d->v[at].type == JSON_ARRAY) &&
			      d->v[at].count != 0 && indent < 24;
		AUTO_FREE char *text = nested ? NULL : cli_json_text(d, at);
		AUTO_FREE char *vis = log_vis(str_z(text)), *key = log_vis(d->v[at].key);

		(void)printf("%*s%s%s%s\n", indent, "", d->v[at].key.n != 0 ? key : "-",
		    nested		  ? ":"
		    : d->v[at].key.n != 0 ? ": "
					  : " ",
		    nested ? "" : vis);
		if (nested)
			print_at(d, at, indent + 2);
	}
}

void
cli_print_json(const struct cli_doc *d, size_t v)
{
	if (v < d->n)
		print_at(d, v, 0);
}
