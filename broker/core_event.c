/*
 * What the loop reports of itself (process: core): model turns, code, output. Claims of an agent,
 * recorded as such (src "agent"), under four types and no key that another record uses.
 */
#include "broker/core_agent.h"

#include <stdlib.h>

#include "broker/core_peer.h"
#include "broker/core_record.h"
#include "broker/core_words.h"
#include "common/xalloc.h"

#include "common/banned.h"

static bool
key_ok(struct str k)
{
	for (size_t i = 0; i < k.n; i++)
		if (!((k.p[i] >= 'a' && k.p[i] <= 'z') || (k.p[i] >= '0' && k.p[i] <= '9') ||
			k.p[i] == '_'))
			return false;
	return k.n >= 1 && k.n <= 64 && !str_eqz(k, "content");
}

/* Sorted by the emitter first, so that "content" finds its place. */
static int
sorted(struct str fields, struct json_doc **ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf b = BUF(CORE_FIELDS_MAX);
	struct jcs j;
	int rc = json_parse(fields, "event fields", &doc, err);

	if (rc == 0 && json_type(json_root(doc)) != JSON_OBJECT)
		rc = err_set(err, ERR_INVALID, "event fields must be an object");
	jcs_init(&j, &b);
	if (rc == 0)
		rc = jcs_value(&j, NULL, json_root(doc), err);
	if (rc == 0 && buf_over(&b))
		rc = err_set(err, ERR_TOO_LARGE, "event fields are over %d bytes", CORE_FIELDS_MAX);
	return rc != 0 ? rc : json_parse(buf_str(&b), "event fields", ret, err);
}

int
core_agent_event_data(
    struct str fields, const struct blob_ref *content, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *o;
	bool done = false;
	struct jcs j;
	int rc = sorted(fields, &doc, err);

	if (rc != 0)
		return rc;
	o = json_root(doc);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < json_count(o); i++) {
		if (!key_ok(json_key(o, i)))
			return err_set(err, ERR_INVALID,
			    "event field \"%.*s\": a name is 1 to 64 of [a-z0-9_], not content",
			    STR_ARG(json_key(o, i)));
		if (!done && str_cmp(json_key(o, i), STR("content")) > 0) {
			blob_ref_jcs(&j, "content", content);
			done = true;
		}
		jcs_key(&j, json_key(o, i));
		rc = jcs_value(&j, NULL, json_at(o, i), err);
		if (rc != 0)
			return rc;
	}
	if (!done)
		blob_ref_jcs(&j, "content", content);
	jcs_close(&j);
	return 0;
}

struct event {
	struct core *core;
	uint64_t peer, id;
	bool result; /* of a call: what came of it meanwhile is told with the ack */
};

static void
event_acked(void *arg, const struct core_ack *ack)
{
	AUTO_FREE struct event *e = arg;
	struct core_peer *p = core_peer_by_serial(e->core, e->peer);
	AUTO_BUF struct buf b = BUF(32768), words = BUF(CORE_WORDS_MAX),
			    told = BUF(CORE_TOLD_MAX + 64);
	struct err why;

	if (p == NULL)
		return;
	p->nevents--;
	if (ack->code != 0) {
		(void)err_set(&why, ERR_UNAVAILABLE, "the decision log is not available");
		(void)core_agent_refuse(p, &why);
		return;
	}
	buf_u64(&b, e->id);
	buf_u64(&b, ack->seq);
	if (p->run != NULL && e->result) {
		core_words_changed(p->run, &words);
		core_told_take(p->run, &told);
	}
	buf_lstr(&b, buf_str(&words));
	buf_lstr(&b, buf_str(&told));
	core_send(p, MSG_A_EVENT_ACK, &b);
}

static const char *
event_type(struct str type)
{
	static const struct {
		const char *name, *type;
	} types[] = {{"model", "agent.model"}, {"exec", "agent.exec"}, {"result", "agent.result"},
	    {"note", "agent.note"}};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eqz(type, types[i].name))
			return types[i].type;
	return NULL;
}

static int
event_record(struct core_peer *p, uint64_t id, const char *type, struct str fields,
    struct str content, struct err *err)
{
	struct core_run *run = p->run;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	AUTO_FREE struct event *e = xcalloc(1, sizeof(*e));
	struct blob_ref ref;
	int rc = blob_seal(run->key, str_z(run->id), "text/plain", content, &frame, &ref, err);

	if (rc == 0)
		rc = core_agent_event_data(fields, &ref, &data, err);
	if (rc != 0)
		return rc;
	/* Neither one agent nor all of them together leave actions without room. */
	if (p->nevents >= CORE_EVENTS_MAX || p->core->ntickets >= CORE_TICKETS_MAX / 2)
		return err_set(err, ERR_TOO_LARGE,
		    "%zu events of this run and %zu records are not durable yet, limits %d and %d",
		    p->nevents, p->core->ntickets, CORE_EVENTS_MAX, CORE_TICKETS_MAX / 2);
	*e = (struct event){p->core, p->serial, id, strcmp(type, "agent.result") == 0};
	if (core_record(p->core, &(struct core_append){.type = type,
				     .src = "agent",
				     .run = run->id,
				     .data = &data,
				     .frame = &frame,
				     .show = content,
				     .fn = event_acked,
				     .arg = e}) == NULL)
		return err_set(err, ERR_UNAVAILABLE, "the decision log is not available");
	(void)TAKE_PTR(e);
	p->nevents++;
	return 0;
}

int
core_agent_on_event(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body);
	struct str name = rd_lstr(body), fields = rd_lstr(body), content = rd_lstr(body);
	const char *type = event_type(name);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "A_EVENT is malformed");
	if (type == NULL) {
		(void)err_set(err, ERR_INVALID,
		    "event type must be model, exec, result or note, is \"%.*s\"", STR_ARG(name));
		return core_agent_refuse(p, err);
	}
	if (event_record(p, id, type, fields, content, err) != 0)
		return core_agent_refuse(p, err);
	if (str_eqz(name, "model") || str_eqz(name, "note")) {
		free(p->run->said);
		p->run->said = str_dup(
		    str_mem(content.p, content.n < CORE_SAID_MAX ? content.n : CORE_SAID_MAX));
	}
	return 0;
}
