/*
 * Whatever our reader accepts, llhttp accepts too, and reads the same in it. Test code: runs on
 * fuzzer's input.
 *
 * Differences that are meant:
 *  - llhttp knows a closed list of methods; ours is any token, and policy has the list. llhttp
 *    is given POST in place of one that it does not know.
 *  - Of an HTTP/1.0 request that says both `close` and `keep-alive`, and of one whose keep-alive
 *    stands in Proxy-Connection, we close; llhttp goes on.
 *  - llhttp does not see a `close` with a tab beside it; we do, and close.
 */
#include "tests/fuzz/llhttp_check.h"

#include "llhttp.h"

#include "common/banned.h"

#define BODY_MAX ((size_t)16 << 20)

struct theirs {
	struct buf target, fields, body;
	bool head, ended, keep_alive;
	enum http_body kind;
	uint64_t length;
};

/* --- their side ------------------------------------------------------------------ */

static int
on_url(llhttp_t *p, const char *at, size_t n)
{
	struct theirs *t = p->data;

	buf_put(&t->target, at, n);
	return 0;
}

/* Fields after the head are trailers. */
static int
on_text(llhttp_t *p, const char *at, size_t n)
{
	struct theirs *t = p->data;

	if (!t->head)
		buf_put(&t->fields, at, n);
	return 0;
}

static int
on_name_end(llhttp_t *p)
{
	struct theirs *t = p->data;

	if (!t->head)
		buf_put_c(&t->fields, ':');
	return 0;
}

/* It leaves white space at the end of a value. */
static int
on_value_end(llhttp_t *p)
{
	struct theirs *t = p->data;

	if (t->head)
		return 0;
	while (t->fields.p[t->fields.n - 1] == ' ' || t->fields.p[t->fields.n - 1] == '\t')
		t->fields.n--;
	buf_put_c(&t->fields, '\n');
	return 0;
}

static int
on_head_end(llhttp_t *p)
{
	struct theirs *t = p->data;

	t->head = true;
	if ((p->flags & F_CHUNKED) != 0)
		t->kind = HTTP_BODY_CHUNKED;
	else if ((p->flags & F_CONTENT_LENGTH) != 0)
		t->kind = HTTP_BODY_LENGTH;
	t->length = p->content_length;
	return 0;
}

static int
on_body(llhttp_t *p, const char *at, size_t n)
{
	struct theirs *t = p->data;

	buf_put(&t->body, at, n);
	return 0;
}

static int
on_end(llhttp_t *p)
{
	struct theirs *t = p->data;

	t->ended = true;
	t->keep_alive = llhttp_should_keep_alive(p) != 0;
	return HPE_PAUSED;
}

static void
their_reading(struct str in, struct theirs *t, llhttp_t *p)
{
	llhttp_settings_t s;

	llhttp_settings_init(&s);
	s.on_url = on_url;
	s.on_header_field = on_text;
	s.on_header_field_complete = on_name_end;
	s.on_header_value = on_text;
	s.on_header_value_complete = on_value_end;
	s.on_headers_complete = on_head_end;
	s.on_body = on_body;
	s.on_message_complete = on_end;
	llhttp_init(p, HTTP_REQUEST, &s);
	p->data = t;
	(void)llhttp_execute(p, in.p, in.n);
	/* Only for the time of the call. */
	p->settings = NULL;
}

static bool
knows_method(struct str method)
{
	static const char *const known[] = {
#define X(number, name, string) #string,
	    HTTP_METHOD_MAP(X)
#undef X
	};

	if (str_eqz(method, "SOURCE")) /* of another protocol */
		return false;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eqz(method, known[i]))
			return true;
	return false;
}

/* --- our side -------------------------------------------------------------------- */

struct ours {
	struct http_request r;
	struct buf fields, body;
	int rc; /* of the body: 1 ended, 0 more is needed, negative refused */
	size_t end;
};

static void
our_reading(struct str in, size_t head, struct ours *o)
{
	struct str rest = {in.p + head, in.n - head}, run;
	struct http_reader reader;

	for (size_t i = 0; i < o->r.nfields; i++) {
		buf_put_str(&o->fields, o->r.fields[i].name);
		buf_put_c(&o->fields, ':');
		buf_put_str(&o->fields, o->r.fields[i].value);
		buf_put_c(&o->fields, '\n');
	}
	http_reader_init(&reader, o->r.body, o->r.length);
	do {
		o->rc = http_reader_next(&reader, &rest, &run, NULL);
		buf_put_str(&o->body, run);
	} while (o->rc == 0 && rest.n != 0);
	o->end = in.n - rest.n;
}

static void
twist(struct ours *o, enum llhttp_fact fact)
{
	switch (fact) {
	case LLHTTP_METHOD: o->r.method = STR("PURGE"); break;
	case LLHTTP_TARGET: o->r.target = STR("/twisted"); break;
	case LLHTTP_FIELDS: buf_put_c(&o->fields, 'x'); break;
	case LLHTTP_FRAMING: o->r.length++; break;
	case LLHTTP_BODY: buf_put_c(&o->body, 'x'); break;
	case LLHTTP_KEEP_ALIVE: o->r.keep_alive = !o->r.keep_alive; break;
	case LLHTTP_END: o->end++; break;
	case LLHTTP_NOTHING:
	case LLHTTP_FACTS: break;
	}
}

/* --- compared -------------------------------------------------------------------- */

/* Up to the end of the line, of which the value has lost its white space. */
static bool
has_tab(struct str value)
{
	const char *p = value.p;

	while (*p != '\r' && *p != '\t')
		p++;
	return *p == '\t';
}

static bool
same_keep_alive(const struct ours *o, bool theirs)
{
	const struct http_field *f = o->r.fields;
	size_t n = o->r.nfields;

	if (o->r.keep_alive == theirs)
		return true;
	if (o->r.keep_alive)
		return false;
	if (o->r.minor == 0)
		return http_field_has(f, n, "Connection", "close") ||
		       http_field_has(f, n, "Proxy-Connection", "close") ||
		       !http_field_has(f, n, "Connection", "keep-alive");
	for (size_t i = 0; i < n; i++)
		if ((http_name_is(f[i].name, "Connection") ||
			http_name_is(f[i].name, "Proxy-Connection")) &&
		    has_tab(f[i].value))
			return true;
	return false;
}

/* A body that we refused may be any to them, but what was given on before must be theirs too. */
static const char *
compare_body(const struct ours *o, const struct theirs *t, size_t their_end)
{
	if (o->rc < 0)
		return t->body.n < o->body.n ||
			       !str_eq((struct str){(const char *)t->body.p, o->body.n},
				   buf_str(&o->body))
			   ? "content before a refusal"
			   : NULL;
	if (!str_eq(buf_str(&o->body), buf_str(&t->body)))
		return "content";
	if ((o->rc == 1) != t->ended)
		return "whether the body has ended";
	if (o->rc == 1 && o->end != their_end)
		return "the end";
	if (o->rc == 1 && !same_keep_alive(o, t->keep_alive))
		return "keep-alive";
	return NULL;
}

static const char *
compare(const struct ours *o, const struct theirs *t, llhttp_t *p, size_t their_end)
{
	const char *method = llhttp_method_name((llhttp_method_t)llhttp_get_method(p));

	if (!t->head)
		return "the head is refused";
	if (!str_eqz(o->r.method, method))
		return "method";
	if (!str_eq(o->r.target, buf_str(&t->target)))
		return "target";
	if (!str_eq(buf_str(&o->fields), buf_str(&t->fields)))
		return "fields";
	if (o->r.minor != llhttp_get_http_minor(p) || llhttp_get_http_major(p) != 1)
		return "version";
	if (o->r.body != t->kind || (t->kind == HTTP_BODY_CHUNKED ? 0 : t->length) != o->r.length)
		return "framing";
	if (o->rc >= 0 && !t->ended && llhttp_get_errno(p) != HPE_OK)
		return "the body is refused";
	return compare_body(o, t, their_end);
}

/* With a method that they know; the room it needs is ours to take away again. */
static void
both(struct str in, size_t head, struct ours *o, enum llhttp_fact fact, struct llhttp_result *ret)
{
	AUTO_BUF struct buf copy = BUF(in.n + 4);
	struct theirs t = {
	    .target = BUF(HTTP_HEAD_MAX), .fields = BUF(2 * HTTP_HEAD_MAX), .body = BUF(BODY_MAX)};
	size_t skip = knows_method(o->r.method) ? 0 : o->r.method.n, added = skip != 0 ? 4 : 0;
	llhttp_t p;

	our_reading(in, head, o);
	ret->ended = o->rc == 1;
	ret->end = o->end;
	ret->more = ret->ended && o->r.keep_alive && o->r.form != HTTP_AUTHORITY && !o->r.upgrade;
	twist(o, fact);
	if (added != 0) {
		buf_put_z(&copy, "POST");
		o->r.method = fact == LLHTTP_METHOD ? o->r.method : STR("POST");
	}
	buf_put(&copy, in.p + skip, in.n - skip);
	their_reading(buf_str(&copy), &t, &p);
	ret->differs = compare(o, &t, &p,
	    t.ended ? (size_t)(llhttp_get_error_pos(&p) - (char *)copy.p) + skip - added : 0);
	buf_free(&t.target);
	buf_free(&t.fields);
	buf_free(&t.body);
}

void
llhttp_check(struct str in, enum llhttp_fact fact, struct llhttp_result *ret)
{
	static struct ours o;
	size_t scanned = 0, head;

	*ret = (struct llhttp_result){0};
	if (http_head_end(in, &scanned, &head, NULL) != 0 || head == 0)
		return;
	o = (struct ours){.fields = BUF(2 * HTTP_HEAD_MAX), .body = BUF(BODY_MAX)};
	ret->head = http_request_parse((struct str){in.p, head}, &o.r, NULL) == 0;
	if (ret->head)
		both(in, head, &o, fact, ret);
	buf_free(&o.fields);
	buf_free(&o.body);
}
