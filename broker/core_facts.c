/*
 * Questions to the run's parser (process: core). The parser reads hostile text with a large
 * foreign library: it may crash, hang or lie. A lie is bounded by what effects core's own
 * table gives to the marks it names; anything outside the closed form is opaque.
 */
#include "broker/core_facts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/core_run.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WHY_MAX 512

struct core_ask {
	TAILQ_ENTRY(core_ask) link;
	uint64_t id;
	struct core_run *run;
	struct core_facts *facts;
	struct buf text; /* of a body: its Content-Type */
	int fd;		 /* of a body; -1 */
	uint64_t length;
	bool sent;
	core_facts_fn *fn;
	void *arg;
	struct loop_timer *timer;
};

struct core_facts *
core_facts_new(const struct hash *text)
{
	struct core_facts *f = xcalloc(1, sizeof(*f));

	f->refs = 1;
	f->dialect = CORE_SQL;
	f->text = *text;
	return f;
}

struct core_facts *
core_facts_new_http(uint8_t dialect)
{
	struct core_facts *f = core_facts_new(&(struct hash){0});

	f->dialect = dialect;
	return f;
}

struct core_facts *
core_facts_ref(struct core_facts *f)
{
	f->refs++;
	return f;
}

void
core_facts_unref(struct core_facts *f)
{
	if (f == NULL || --f->refs != 0)
		return;
	free(f->why);
	free(f->json);
	json_free(f->doc);
	free(f);
}

/* --- reading an answer ----------------------------------------------------------- */

void
core_facts_fail(struct core_facts *f, enum core_facts_status status, const char *why)
{
	AUTO_BUF struct buf b = BUF(4 * WHY_MAX);
	struct str cut = str_z(why);
	struct jcs j;

	if (cut.n > WHY_MAX)
		cut.n = WHY_MAX;
	f->status = status;
	f->why = log_vis(cut);
	f->view = (struct facts_sql_view){.effects = EFFECT_invalid, .statements = 1};
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "error", cut);
	jcs_close(&j);
	f->json = buf_dup_z(&b);
}

static bool
names_read(const struct json *v, struct core_names *ret)
{
	if (v == NULL)
		return true;
	if (json_type(v) != JSON_ARRAY || json_count(v) > FACTS_RELATIONS_MAX)
		return false;
	for (size_t i = 0; i < json_count(v); i++) {
		if (json_type(json_at(v, i)) != JSON_STRING)
			return false;
		ret->s[ret->n++] = json_str(json_at(v, i));
	}
	return true;
}

static bool
txn_read(const struct json *v, struct core_facts *f)
{
	if (v == NULL)
		return true;
	if (json_type(v) != JSON_ARRAY)
		return false;
	f->txn = json_count(v) != 0;
	for (size_t i = 0; i < json_count(v); i++) {
		struct str s = json_str(json_at(v, i));

		if (str_eqz(s, "rollback"))
			f->rollback = true;
		else if (str_eqz(s, "savepoint"))
			f->savepoints++;
		else if (str_eqz(s, "release"))
			f->releases++;
		else if (str_eqz(s, "rollback_to"))
			f->rollback_to = true;
		else if (!str_eqz(s, "begin"))
			f->commit = true; /* and whatever is not known */
	}
	return true;
}

static bool
facts_read(struct core_facts *f)
{
	const struct json *o = json_root(f->doc);

	if (f->dialect != CORE_SQL)
		return json_type(o) == JSON_OBJECT;
	if (json_type(o) != JSON_OBJECT || !names_read(json_get(o, "rel"), &f->rel) ||
	    !names_read(json_get(o, "prep"), &f->prep) ||
	    !names_read(json_get(o, "exec"), &f->exec) ||
	    !names_read(json_get(o, "dealloc"), &f->dealloc) || !txn_read(json_get(o, "txn"), f))
		return false;
	for (size_t i = 0; i < f->dealloc.n; i++)
		if (f->dealloc.s[i].n == 0 || str_eqz(f->dealloc.s[i], "*"))
			f->dealloc_all = true;
	effects_sql(o, &f->view);
	if (f->view.effects == 0)
		f->view.effects = EFFECT_opaque;
	return true;
}

static void
facts_ok(struct core_facts *f, struct str said)
{
	AUTO_BUF struct buf b = BUF(FACTS_JSON_MAX);
	struct err err;
	struct jcs j;

	jcs_init(&j, &b);
	if (said.n > FACTS_JSON_MAX || json_parse(said, "facts", &f->doc, &err) != 0 ||
	    jcs_value(&j, NULL, json_root(f->doc), &err) != 0 || buf_over(&b) || !facts_read(f)) {
		log_warn("the parser gave facts that are not of the form");
		f->rel = f->prep = f->exec = f->dealloc = (struct core_names){0};
		core_facts_fail(f, CORE_FACTS_LOST, "the classifier gave no usable answer");
		return;
	}
	f->status = CORE_FACTS_OK;
	f->json = buf_dup_z(&b);
}

void
core_facts_fill(struct core_facts *f, unsigned status, struct str said)
{
	AUTO_FREE char *why = NULL;

	if (status == 0) {
		facts_ok(f, said);
		return;
	}
	why = str_dup(said);
	core_facts_fail(f, status == 2 ? CORE_FACTS_COMPLEX : CORE_FACTS_INVALID, why);
}

/* --- asking ---------------------------------------------------------------------- */

static void
ask_free(struct core_ask *a)
{
	TAILQ_REMOVE(&a->run->asks, a, link);
	loop_timer_del(a->timer);
	core_facts_unref(a->facts);
	buf_free(&a->text);
	if (a->fd >= 0)
		(void)close(a->fd);
	free(a);
}

/* Settled: tell the owner. The ask is gone before, so that the owner may do anything. */
static void
ask_done(struct core_ask *a)
{
	core_facts_fn *fn = a->fn;
	void *arg = a->arg;

	ask_free(a);
	if (fn != NULL)
		fn(arg);
}

static void
ask_timeout(void *arg)
{
	struct core_ask *a = arg;

	a->timer = NULL;
	log_warn("run %s: no answer from its parser in %d ms", a->run->id, CORE_PARSER_MS);
	core_facts_fail(a->facts, CORE_FACTS_LOST, "the classifier did not answer in time");
	ask_done(a);
}

static void
ask_send(struct core_ask *a)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_u64(&b, a->id);
	buf_u8(&b, a->facts->dialect);
	buf_lstr(&b, buf_str(&a->text));
	if (a->fd < 0) {
		core_send(a->run->parser, MSG_X_ASK, &b);
	} else {
		buf_u64(&b, a->length);
		ipc_send(a->run->parser->wire, MSG_X_BODY, &b, &a->fd, 1);
	}
	a->sent = true;
}

static struct core_ask *
ask(struct core_run *run, struct core_facts *f, struct str text, int fd, uint64_t length,
    core_facts_fn *fn, void *arg)
{
	struct core *c = run->core;
	struct core_ask *a = xcalloc(1, sizeof(*a));

	a->fd = fd;
	a->length = length;
	a->id = ++c->last_ask;
	a->run = run;
	a->facts = core_facts_ref(f);
	a->fn = fn;
	a->arg = arg;
	buf_init(&a->text, FACTS_SQL_MAX);
	buf_put_str(&a->text, text);
	a->timer = loop_timer_add(c->loop, CORE_PARSER_MS, ask_timeout, a);
	TAILQ_INSERT_TAIL(&run->asks, a, link);
	if (run->parser != NULL)
		ask_send(a);
	return a;
}

struct core_ask *
core_facts_ask(
    struct core_run *run, struct core_facts *f, struct str text, core_facts_fn *fn, void *arg)
{
	return ask(run, f, text, -1, 0, fn, arg);
}

struct core_ask *
core_facts_ask_body(struct core_run *run, struct core_facts *f, struct str type, int fd,
    uint64_t length, core_facts_fn *fn, void *arg)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (own < 0) {
		core_facts_fail(f, CORE_FACTS_LOST, "the broker has no descriptors left");
		return NULL;
	}
	return ask(run, f, type, own, length, fn, arg);
}

void
core_facts_forget(struct core_ask *a)
{
	if (a != NULL)
		a->fn = NULL;
}

static struct core_ask *
ask_find(struct core_run *run, uint64_t id)
{
	struct core_ask *a = NULL;

	TAILQ_FOREACH (a, &run->asks, link) {
		if (a->id == id && a->sent)
			return a;
	}
	return NULL;
}

int
core_facts_on_facts(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body);
	unsigned status = rd_u8(body);
	struct str said = rd_lstr(body);
	struct core_ask *a = ask_find(p->run, id);

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || status > 2)
		return err_set(err, ERR_PROTOCOL, "X_FACTS is malformed");
	if (a == NULL)
		return 0; /* timed out before */
	core_facts_fill(a->facts, status, said);
	ask_done(a);
	return 0;
}

void
core_facts_parser_up(struct core_run *run)
{
	struct core_ask *a;

	TAILQ_FOREACH (a, &run->asks, link)
		if (!a->sent)
			ask_send(a);
}

static struct core_ask *
first_sent(struct core_run *run)
{
	struct core_ask *a;

	TAILQ_FOREACH (a, &run->asks, link)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		if (a->sent)
			return a;
	return NULL;
}

void
core_facts_parser_down(struct core_run *run)
{
	struct core_ask *a;

	while ((a = first_sent(run)) != NULL) {
		core_facts_fail(a->facts, CORE_FACTS_LOST, "the classifier died on this statement");
		ask_done(a);
	}
}

void
core_facts_drop(struct core_run *run)
{
	struct core_ask *a;

	while ((a = TAILQ_FIRST(&run->asks)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		ask_free(a);
}

/* The wire tells the same; whichever comes first. */
int
core_facts_on_died(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct str id = rd_lstr(body);
	struct core_run *run;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "K_PARSER_DIED is malformed");
	run = core_run_find(p->core, id);
	if (run != NULL)
		core_run_parser_gone(run);
	return 0;
}
