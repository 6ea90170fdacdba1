/*
 * What an agent tells of itself, and asks (process: cofferdam-agent). Told is what the broker has
 * acknowledged as durable: before that nothing goes on that rests on it.
 */
#include "agent/agent_broker_int.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define REFUSED_MAX ((size_t)32768)

/* The wire, by an exchange that ended with rc. */
static bool
was_lost(const struct broker *b, int rc)
{
	return rc != 0 && b->killed == NULL &&
	       (rc == ERR_UNAVAILABLE || rc == ERR_SYSTEM || rc == ERR_PROTOCOL);
}

static void
text_set(char **field, struct str value)
{
	free(*field);
	*field = str_dup(value);
}

char *
broker_take_refused(struct broker *b)
{
	return b->refused != NULL ? TAKE_PTR(b->refused) : xstrdup("");
}

/* Behind what nobody has taken yet; the oldest goes where that is too much. */
static void
refused_add(struct broker *b, struct str more)
{
	AUTO_BUF struct buf all = BUF(REFUSED_MAX);

	if (b->refused != NULL && strlen(b->refused) + more.n <= REFUSED_MAX)
		buf_put_z(&all, b->refused);
	buf_put_str(&all, more);
	text_set(&b->refused, buf_str(&all));
}

/* False: malformed. */
static bool
ack_take(struct broker *b, struct str body, uint64_t *ret_id, uint64_t *ret_seq)
{
	struct rd r = rd_init(body);
	uint64_t id = rd_u64(&r), seq = rd_u64(&r);
	struct str words = rd_lstr(&r), refused = rd_lstr(&r);

	if (!rd_end(&r))
		return false;
	if (words.n != 0)
		text_set(&b->plan.words, words);
	if (refused.n != 0)
		refused_add(b, refused);
	*ret_id = id;
	*ret_seq = seq;
	return true;
}

bool
broker_later_take(struct broker *b, struct str body)
{
	struct rd r = rd_init(body);
	uint64_t id = rd_u64(&r), seq;

	if (b->later.id == 0 || id != b->later.id || !ack_take(b, body, &id, &seq))
		return false;
	b->later.id = 0;
	return true;
}

/* One try of request and acknowledgement. ERR_UNAVAILABLE and friends: the wire was lost. */
static int
event_once(struct broker *b, uint64_t id, const struct buf *out, uint64_t *ret_seq, struct err *err)
{
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	uint64_t got = 0;
	int rc;

	if ((rc = broker_send_msg(b, MSG_A_EVENT, out, NULL, 0, err)) != 0 ||
	    (rc = broker_expect(b, MSG_A_EVENT_ACK, &in, err)) != 0)
		return rc;
	if (!ack_take(b, buf_str(&in), &got, ret_seq) || got != id)
		return err_set(err, ERR_PROTOCOL, "broker: acknowledged event %llu, not %llu",
		    (unsigned long long)got, (unsigned long long)id);
	return 0;
}

static void
own_show(struct broker *b, uint64_t seq, const char *type, struct str fields, struct str content)
{
	AUTO_FREE char *name = xasprintf("agent.%s", type);

	transcript_own(b->steer->out, b->plan.run, seq, name, fields, content);
}

static int
event_put(struct broker *b, const char *type, struct str fields, struct str content,
    struct buf *out, struct err *err)
{
	if (b->killed != NULL)
		return err_set(err, ERR_STATE, "the run was ended: %s", b->killed);
	buf_u64(out, ++b->next_id);
	buf_lz(out, type);
	buf_lstr(out, fields);
	buf_lstr(out, content);
	if (buf_over(out))
		return err_set(
		    err, ERR_TOO_LARGE, "event: %zu bytes of content are too many", content.n);
	return 0;
}

int
broker_event_later(
    struct broker *b, const char *type, struct str fields, struct str content, struct err *err)
{
	struct buf *out = &b->later.frame;
	struct err e = {0};
	int rc;

	/* One at a time; and a stream for machines has each with its number, in its order. */
	if (b->later.id != 0 || (broker_shows(b->steer) && b->steer->out->json))
		return broker_event(b, type, fields, content, err);
	if (out->max == 0)
		buf_init(out, IPC_BODY_MAX);
	buf_reset(out);
	if ((rc = event_put(b, type, fields, content, out, err)) != 0)
		return rc;
	b->later.id = b->next_id;
	rc = broker_send_msg(b, MSG_A_EVENT, out, NULL, 0, &e);
	if (was_lost(b, rc))
		rc = broker_resume(b, &e); /* which sends it again */
	return rc == 0 ? 0 : err_set(err, rc, "%s", e.msg);
}

int
broker_event(
    struct broker *b, const char *type, struct str fields, struct str content, struct err *err)
{
	AUTO_BUF struct buf out = BUF(IPC_BODY_MAX);
	uint64_t id, seq = 0;
	struct err e = {0};
	int rc = event_put(b, type, fields, content, &out, err);

	if (rc != 0)
		return rc;
	id = b->next_id;
	rc = event_once(b, id, &out, &seq, &e);
	if (was_lost(b, rc) && (rc = broker_resume(b, &e)) == 0)
		rc = event_once(b, id, &out, &seq, &e);
	if (rc == 0 && broker_shows(b->steer))
		own_show(b, seq, type, fields, content);
	return rc == 0 ? 0 : err_set(err, rc, "%s", e.msg);
}

static int
query_once(struct broker *b, uint64_t id, const struct buf *out, struct buf *ret, struct err *err)
{
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	struct str text;
	struct rd r;
	uint64_t got;
	uint32_t code;
	int rc;

	if ((rc = broker_send_msg(b, MSG_A_ASK, out, NULL, 0, err)) != 0 ||
	    (rc = broker_expect(b, MSG_A_REPLY, &in, err)) != 0)
		return rc;
	r = rd_init(buf_str(&in));
	got = rd_u64(&r);
	code = rd_u32(&r);
	text = rd_lstr(&r);
	if (!rd_end(&r) || got != id || code > 100)
		return err_set(err, ERR_PROTOCOL, "broker: malformed reply");
	if (code != 0)
		return err_set(err, -(int)code, "%.*s", STR_ARG(text));
	buf_put_str(ret, text);
	return 0;
}

int
broker_query(struct broker *b, const char *verb, struct str args, struct buf *ret, struct err *err)
{
	AUTO_BUF struct buf out = BUF(8192);
	uint64_t id = ++b->next_id;
	struct err e = {0};
	int rc;

	if (b->killed != NULL)
		return err_set(err, ERR_STATE, "the run was ended: %s", b->killed);
	buf_u64(&out, id);
	buf_lz(&out, verb);
	buf_lstr(&out, args);
	if (buf_over(&out))
		return err_set(err, ERR_TOO_LARGE, "%s: arguments of %zu bytes", verb, args.n);
	rc = query_once(b, id, &out, ret, &e);
	if (was_lost(b, rc) && (rc = broker_resume(b, &e)) == 0)
		rc = query_once(b, id, &out, ret, &e);
	return rc == 0 ? 0 : err_set(err, rc, "%s", e.msg);
}

int
broker_end_spent(
    struct broker *b, const char *status, const char *text, const char *spent, struct err *err)
{
	AUTO_BUF struct buf out = BUF(4096), in = BUF(IPC_BODY_MAX);
	struct str s = str_z(text);
	int rc;

	if (b->killed != NULL)
		return 0;
	if (s.n > 3000)
		s.n = 3000;
	while (s.n != 0 && !str_is_utf8(s))
		s.n--; /* a cut in the middle of a character */
	buf_lz(&out, status);
	buf_lstr(&out, s);
	buf_lz(&out, spent);
	if ((rc = broker_send_msg(b, MSG_A_END, &out, NULL, 0, err)) != 0)
		return rc;
	return broker_expect(b, MSG_A_ENDED, &in, err);
}

int
broker_end(struct broker *b, const char *status, const char *text, struct err *err)
{
	return broker_end_spent(b, status, text, "", err);
}
