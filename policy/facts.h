/*
 * Facts: what a classifier found in one request, before anybody judges. For SQL the parser
 * process emits JSON (facts_sql.c) and effects_sql.c, which core and the command line link,
 * turns its marks into effects by one table: an unknown mark is opaque.
 *
 * SQL facts JSON (also stands inline in the log):
 *   {"marks":["delete:bounded","func:pg_catalog.count"],"rel":["public.contacts"],
 *    "n":1,"tag":["DELETE"],"dml":1}
 * marks: sorted, unique, over all statements. rel: relations named, schema-qualified as written,
 * lower-cased as the server does, CTE names left out, sorted, unique. n: statements (an empty text:
 * 0). tag: one word per statement. dml: statements that are INSERT, UPDATE, DELETE or MERGE at the
 * top (also after WITH, or under PREPARE). Names that hold a '.' or '"' stand in double quotes, so
 * that func:"pg_catalog.x" is never read as two. "dealloc":[""] is DEALLOCATE ALL. COMMIT AND CHAIN
 * is "commit","begin". "exec":[name...] / "prep":[name...] / "dealloc":[...]: SQL-level prepared
 * statement names. "fence": true when a statement cannot run inside a transaction block.
 * "txn":["begin"|"commit"|"rollback"|"savepoint"|"release"|"rollback_to"...]: plain control, in
 * order.
 */
#ifndef POLICY_FACTS_H
#define POLICY_FACTS_H

#include "common/json.h"
#include "policy/effect.h"

#define FACTS_SQL_MAX ((size_t)65536) /* bytes of SQL text judged; more is "too complex" */
#define FACTS_SQL_COMMENT_DEPTH 16
#define FACTS_JSON_MAX ((size_t)24576) /* bytes of facts; more is "too complex" */
#define FACTS_RELATIONS_MAX 64

/* In cofferdam-parser alone. ERR_SYNTAX: the text is not SQL; ERR_TOO_COMPLEX: over a limit. */
int facts_sql(struct str sql, struct buf *ret_json, struct err *err);

struct facts_sql_view {
	uint32_t effects;
	uint32_t effects_resolved; /* what stays when core knows every name in "exec" */
	unsigned statements;	   /* an empty text counts as 1 */
	unsigned dml;
	bool fence;
	bool copy_in;	 /* COPY ... FROM STDIN somewhere */
	bool txn_only;	 /* nothing but plain transaction control */
	bool hidden_dml; /* DML whose row count no command tag tells: under WITH, EXPLAIN, COPY */
};
/* Pure: facts JSON to effects. Anything not in the closed form gives EFFECT_opaque, never an error.
 */
void effects_sql(const struct json *facts, struct facts_sql_view *ret);
/* Why the broker refuses to carry it, whatever the policy says (0A000), in words; NULL: it does. */
const char *effects_sql_unserved(const struct facts_sql_view *v);

/*
 * One start-up parameter ("application_name", "options", ...): harmless ones are EFFECT_read,
 * pinned ones EFFECT_session, replication EFFECT_opaque. `user` and `database` are not passed here.
 */
uint32_t effects_pg_startup(struct str key, struct str value);
/*
 * The next setting of an `options` value ("-c name=value", "-cname=value", "--name=value"),
 * unescaped as the server does: 1 with *rest moved on, 0 at the end, -1 when it is anything else.
 */
int effects_pg_option(struct str *rest, struct buf *name, struct buf *value);

#define EFFECTS_ENGINE "cofferdam-effects/2" /* bumped when any classification changes */

#endif
