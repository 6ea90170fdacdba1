/*
 * Records as OTLP logs, in the JSON encoding of its protobuf messages: 64-bit integers are strings,
 * keys are lowerCamelCase. Runs in the courier and in the command line. Names are OpenTelemetry's
 * where it has them: log.record.uid says which records are the same.
 */
#include "audit/export.h"

#include <stdio.h>

#include "common/clock.h"

#include "common/banned.h"

#define SCOPE_VERSION "1"
#define NAME_MAX_ 96

/* One AnyValue as a member of the object that is open. */
static void
put_any(struct jcs *j, const char *key, const struct canon_node *v)
{
	const struct canon_node *at;
	char n[24];

	jcs_open(j, key);
	switch (v->type) {
	case CANON_STRING: export_text(j, "stringValue", v->text); break;
	case CANON_BOOL: jcs_bool(j, "boolValue", canon_true(v)); break;
	case CANON_INT:
		(void)snprintf(n, sizeof(n), "%lld", (long long)canon_int(v));
		jcs_z(j, "intValue", n);
		break;
	case CANON_OBJECT: break; /* never: it may not leave */
	case CANON_ARRAY:
		jcs_open(j, "arrayValue");
		jcs_array(j, "values");
		at = canon_first(v);
		for (size_t i = 0; i < v->count && i < EXPORT_LIST_MAX; i++) {
			if (at->type != CANON_ARRAY && at->type != CANON_OBJECT)
				put_any(j, NULL, at);
			if (i + 1 < v->count)
				at = canon_behind(at);
		}
		jcs_array_end(j);
		jcs_close(j);
		break;
	}
	jcs_close(j);
}

/* An attribute whose value is open: attr_end. */
static void
attr(struct jcs *j, const char *key)
{
	jcs_open(j, NULL);
	jcs_z(j, "key", key);
	jcs_open(j, "value");
}

static void
attr_end(struct jcs *j)
{
	jcs_close(j);
	jcs_close(j);
}

static void
put_attr(struct jcs *j, const char *key, struct str value)
{
	attr(j, key);
	jcs_str(j, "stringValue", value);
	attr_end(j);
}

static void
put_int(struct jcs *j, const char *key, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	attr(j, key);
	jcs_z(j, "intValue", text);
	attr_end(j);
}

static void
put_member(void *arg, const char *name, enum export_class c, const struct canon_node *v)
{
	struct jcs *j = arg;
	char key[NAME_MAX_];

	(void)snprintf(
	    key, sizeof(key), "cofferdam.%s%s", c == EXPORT_CLAIM ? "claimed." : "", name);
	jcs_open(j, NULL);
	jcs_z(j, "key", key);
	put_any(j, "value", v);
	jcs_close(j);
}

static void
put_attributes(const struct export *e, struct jcs *j)
{
	AUTO_BUF struct buf id = BUF(EXPORT_ID_MAX);
	char hex[HASH_HEX_SIZE];

	hash_hex(e->leaf, hex);
	export_id(e, &id);
	jcs_array(j, "attributes");
	put_attr(j, "log.record.uid", buf_str(&id));
	if (e->r->run.n != 0)
		put_attr(j, "gen_ai.conversation.id", e->r->run);
	put_attr(j, "cofferdam.hash", str_z(hex));
	put_int(j, "cofferdam.seq", e->r->seq);
	put_attr(j, "cofferdam.src", e->r->src);
	export_each(e, put_member, j);
	jcs_array_end(j);
}

/* What a list of logs shows: type, target, and how it was judged or ended. */
static void
put_body(const struct export *e, struct jcs *j)
{
	static const char *const what[] = {
	    "request.target", "target", "decision.verdict", "status", "person", "id"};
	AUTO_BUF struct buf b = BUF(512);

	buf_put_str(&b, e->r->type);
	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		struct str s = canon_text(export_at(e->data, what[i]));

		if (s.n != 0)
			buf_put_c(&b, ' ');
		export_words(&b, s, 64);
	}
	jcs_open(j, "body");
	jcs_str(j, "stringValue", buf_str(&b));
	jcs_close(j);
}

void
export_otlp_head(const struct export_opts *o, struct buf *out)
{
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_array(&j, "attributes");
	put_attr(&j, "service.name", STR("cofferdam"));
	put_attr(&j, "service.instance.id", o->origin);
	jcs_array_end(&j);
	jcs_close(&j);
	buf_printf(out, "{\"resourceLogs\":[{\"resource\":%.*s,\"scopeLogs\":[{\"logRecords\":[",
	    STR_ARG(buf_str(&b)));
}

void
export_otlp_record(const struct export *e, bool more, struct buf *out)
{
	static const struct {
		int number;
		const char *text;
	} severity[] = {
	    {9, "INFO"}, {9, "INFO"}, {10, "INFO2"}, {13, "WARN"}, {17, "ERROR"}, {21, "FATAL"}};
	unsigned s = export_severity(e);
	AUTO_BUF struct buf name = BUF(EXPORT_TYPE_MAX + 16);
	char nanos[32];
	int64_t us = 0;
	struct jcs j;

	(void)clock_parse(e->r->time, &us, NULL); /* record_parse has read it */
	(void)snprintf(nanos, sizeof(nanos), "%lld000", (long long)us);
	buf_printf(&name, "cofferdam.%.*s", STR_ARG(e->r->type));
	if (more)
		buf_put_c(out, ',');
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_attributes(e, &j);
	put_body(e, &j);
	jcs_str(&j, "eventName", buf_str(&name));
	jcs_z(&j, "observedTimeUnixNano", nanos);
	jcs_int(&j, "severityNumber", severity[s].number);
	jcs_z(&j, "severityText", severity[s].text);
	jcs_z(&j, "timeUnixNano", nanos);
	jcs_close(&j);
}

void
export_otlp_tail(struct buf *out)
{
	buf_put_z(
	    out, "],\"scope\":{\"name\":\"cofferdam.log\",\"version\":\"" SCOPE_VERSION "\"}}]}]}");
}
