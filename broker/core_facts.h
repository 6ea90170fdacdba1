/*
 * What the parser process found in a statement text. The parser may have been taken over:
 * its JSON is read strictly, re-emitted canonically, and turned into effects here, by one
 * table (policy/facts.h). No answer, a strange answer and a dead parser are all "invalid".
 */
#ifndef BROKER_CORE_FACTS_H
#define BROKER_CORE_FACTS_H

#include "broker/core.h"
#include "policy/facts.h"

enum core_facts_status {
	CORE_FACTS_PENDING = 0,
	CORE_FACTS_OK,
	CORE_FACTS_INVALID, /* not SQL */
	CORE_FACTS_COMPLEX, /* over a limit */
	CORE_FACTS_LOST,    /* the parser died or did not answer */
};

struct core_names {
	size_t n;
	struct str s[FACTS_RELATIONS_MAX];
};

/* Of X_ASK and X_BODY; those of HTTP's bodies are in policy/effects_http.h. */
enum core_dialect { CORE_SQL = 1, CORE_SQL_COUNT = 9 };

/* One text's facts; shared by the connection's cache, its statements and acts. */
struct core_facts {
	unsigned refs;
	enum core_facts_status status;
	uint8_t dialect;  /* not CORE_SQL: doc alone is filled, policy/effects_http.h reads it */
	struct hash text; /* SHA-256 of the statement */
	char *why;	  /* unless OK: for people */
	char *json;	  /* canonical; what the record shows */
	struct json_doc *doc;
	struct facts_sql_view view; /* effects, never empty once not PENDING */
	struct core_names rel, prep, exec, dealloc;
	bool dealloc_all;
	bool txn, commit, rollback; /* plain control: any, one that commits, one that rolls back */
	unsigned savepoints, releases; /* how many */
	bool rollback_to;
};

struct core_facts *core_facts_new(const struct hash *text);
struct core_facts *core_facts_new_http(uint8_t dialect);
struct core_facts *core_facts_ref(struct core_facts *f);
void core_facts_unref(struct core_facts *f); /* NULL is fine */
/* Without asking anybody: `text` cannot even be a statement (not UTF-8, has a NUL). */
void core_facts_fail(struct core_facts *f, enum core_facts_status status, const char *why);
/* What X_FACTS said; for tests also from there. */
void core_facts_fill(struct core_facts *f, unsigned status, struct str said);

/* fn is called once from the loop, when f is no longer PENDING. The text is copied. */
typedef void core_facts_fn(void *arg);
struct core_ask *core_facts_ask(
    struct core_run *run, struct core_facts *f, struct str text, core_facts_fn *fn, void *arg);
/* A sealed body of that many bytes; `type` is its Content-Type. The descriptor is duplicated.
 * NULL: f has failed, fn is not called. */
struct core_ask *core_facts_ask_body(struct core_run *run, struct core_facts *f, struct str type,
    int fd, uint64_t length, core_facts_fn *fn, void *arg);
void core_facts_forget(struct core_ask *a); /* the owner of arg goes away */

int core_facts_on_facts(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_facts_on_died(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* The run's parser wire came (run->parser is set) or went: asks are sent, or fail. */
void core_facts_parser_up(struct core_run *run);
void core_facts_parser_down(struct core_run *run);
/* The run ends. */
void core_facts_drop(struct core_run *run);

#endif
