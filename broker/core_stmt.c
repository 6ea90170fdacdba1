/*
 * Statement and portal names of one connection (process: core). The text that is judged at
 * Execute must be the text that the server runs; so the table may know less than the server,
 * then the action is opaque, but never something else. Names and texts come from the client.
 */
#include "broker/core_stmt.h"

#include <stdlib.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct core_stmt *
core_stmt_new(struct str text, struct str types, struct core_facts *f)
{
	struct core_stmt *s = xcalloc(1, sizeof(*s));

	s->refs = 1;
	s->text = str_dup(text);
	s->n = text.n;
	s->types = str_dup(types);
	s->ntypes_bytes = types.n;
	s->facts = core_facts_ref(f);
	return s;
}

struct core_stmt *
core_stmt_ref(struct core_stmt *s)
{
	if (s != NULL)
		s->refs++;
	return s;
}

void
core_stmt_unref(struct core_stmt *s)
{
	if (s == NULL || --s->refs != 0)
		return;
	free(s->text);
	free(s->types);
	core_facts_unref(s->facts);
	free(s);
}

void
core_stmts_init(struct core_stmts *s)
{
	*s = (struct core_stmts){0};
	TAILQ_INIT(&s->table);
	TAILQ_INIT(&s->overlay);
}

static size_t
weight(const struct core_name *e)
{
	return e->nparams + (e->kind == CORE_NAME_STMT && e->stmt != NULL ? e->stmt->n : 0);
}

static void
drop(struct core_stmts *s, struct core_name_list *list, struct core_name *e)
{
	TAILQ_REMOVE(list, e, link);
	s->n--;
	s->bytes -= weight(e);
	core_stmt_unref(e->stmt);
	free(e->name);
	free(e->params);
	free(e);
}

static void
drop_list(struct core_stmts *s, struct core_name_list *list)
{
	struct core_name *e;

	while ((e = TAILQ_FIRST(list)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		drop(s, list, e);
}

void
core_stmts_free(struct core_stmts *s)
{
	drop_list(s, &s->table);
	drop_list(s, &s->overlay);
}

static bool
is(const struct core_name *e, enum core_name_kind kind, struct str name)
{
	return e->kind == kind && str_eqz(name, e->name);
}

static struct core_name *
find_table(const struct core_stmts *s, enum core_name_kind kind, struct str name)
{
	struct core_name *e;

	TAILQ_FOREACH (e, &s->table, link)
		if (is(e, kind, name))
			return e;
	return NULL;
}

const struct core_name *
core_stmts_get(const struct core_stmts *s, enum core_name_kind kind, struct str name)
{
	const struct core_name *e;

	TAILQ_FOREACH_REVERSE (e, &s->overlay, core_name_list, link)
		if (is(e, kind, name))
			return e->gone ? NULL : e;
	return find_table(s, kind, name);
}

static struct core_name *
add(struct core_stmts *s, struct core_name_list *list, enum core_name_kind kind, struct str name)
{
	struct core_name *e = xcalloc(1, sizeof(*e));

	e->kind = kind;
	e->name = str_dup(name);
	TAILQ_INSERT_TAIL(list, e, link);
	s->n++;
	return e;
}

int
core_stmts_put(struct core_stmts *s, enum core_name_kind kind, struct str name,
    struct core_stmt *st, struct str params, struct err *err)
{
	struct core_name *e;

	if (name.n > CORE_NAME_MAX)
		return err_set(err, ERR_TOO_LARGE,
		    "statement or portal name has %zu bytes, limit %d", name.n, CORE_NAME_MAX);
	/* Twice: an act may replace every name once. */
	if (s->n >= 2 * CORE_STMTS_MAX ||
	    (s->n >= CORE_STMTS_MAX && name.n != 0 && core_stmts_get(s, kind, name) == NULL))
		return err_set(err, ERR_TOO_LARGE,
		    "connection has %zu prepared statements and portals, limit %d", s->n,
		    CORE_STMTS_MAX);
	e = add(s, &s->overlay, kind, name);
	e->stmt = core_stmt_ref(st);
	e->params = str_dup(params);
	e->nparams = params.n;
	s->bytes += weight(e);
	if (s->bytes > CORE_STMTS_BYTES) {
		drop(s, &s->overlay, e);
		return err_set(err, ERR_TOO_LARGE,
		    "prepared statements and parameters of the connection are over %zu bytes",
		    CORE_STMTS_BYTES);
	}
	return 0;
}

void
core_stmts_close(struct core_stmts *s, enum core_name_kind kind, struct str name)
{
	if (core_stmts_get(s, kind, name) != NULL)
		add(s, &s->overlay, kind, name)->gone = true;
}

void
core_stmts_close_all(struct core_stmts *s)
{
	const struct core_name *e;

	/* Appends to the overlay while walking it: what is appended is `gone` and changes nothing.
	 */
	TAILQ_FOREACH (e, &s->overlay, link)
		if (e->kind == CORE_NAME_STMT && !e->gone && e->name[0] != '\0')
			core_stmts_close(s, CORE_NAME_STMT, str_z(e->name));
	TAILQ_FOREACH (e, &s->table, link)
		if (e->kind == CORE_NAME_STMT && e->name[0] != '\0')
			core_stmts_close(s, CORE_NAME_STMT, str_z(e->name));
}

/* --- after the act --------------------------------------------------------------- */

/* Move one overlay entry into the table, over what was there. */
static void
settle(struct core_stmts *s, struct core_name *e)
{
	struct core_name *old = find_table(s, e->kind, str_z(e->name));

	if (old != NULL)
		drop(s, &s->table, old);
	if (e->gone) {
		drop(s, &s->overlay, e);
		return;
	}
	TAILQ_REMOVE(&s->overlay, e, link);
	TAILQ_INSERT_TAIL(&s->table, e, link);
}

void
core_stmts_commit(struct core_stmts *s)
{
	struct core_name *e;

	while ((e = TAILQ_FIRST(&s->overlay)) != NULL)
		settle(s, e);
}

static bool
same_text(const struct core_name *a, const struct core_name *b)
{
	return a->stmt != NULL && b->stmt != NULL &&
	       str_eq(str_mem(a->stmt->text, a->stmt->n), str_mem(b->stmt->text, b->stmt->n)) &&
	       str_eq(str_mem(a->stmt->types, a->stmt->ntypes_bytes),
		   str_mem(b->stmt->types, b->stmt->ntypes_bytes));
}

/*
 * The server stopped somewhere in the act: it may hold what the table says, or what any of the
 * changes says, or nothing. One text in all of these: that text (an Execute of nothing is the
 * server's own error). Two texts: unknown.
 */
void
core_stmts_failed(struct core_stmts *s)
{
	struct core_name *e, *old;

	while ((e = TAILQ_FIRST(&s->overlay)) != NULL) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		old = find_table(s, e->kind, str_z(e->name));
		if (e->gone || e->kind == CORE_NAME_PORTAL) {
			drop(s, &s->overlay, e);
		} else if (old == NULL) {
			settle(s, e);
		} else {
			if (!same_text(old, e))
				old->unknown = true;
			drop(s, &s->overlay, e);
		}
	}
	core_stmts_drop_portals(s);
}

void
core_stmts_rollback(struct core_stmts *s)
{
	drop_list(s, &s->overlay);
}

void
core_stmts_drop_portals(struct core_stmts *s)
{
	struct core_name *e, *next;

	for (e = TAILQ_FIRST(&s->table); e != NULL; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->kind == CORE_NAME_PORTAL)
			drop(s, &s->table, e);
	}
}
