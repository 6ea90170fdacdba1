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
 *
 * GraphQL facts JSON, of one request or of a batch; effects_http.c reads it:
 *   {"graphql":[{"fields":["volumeDelete"],"nested":["id"],"operations":1,"type":"mutation"},
 *    {"hash":"<64 hex digits>","name":"GetUser"},{"unknown":"why"}]}
 * One element for each request, in order. type: of the operation that is selected: query, mutation,
 * subscription. fields: names at its root (not aliases), through fragments; nested: of a mutation,
 * names beneath them; sorted, unique. operations: in the document. hash: a document named by its
 * SHA-256 alone; name: its operationName, if one was given. unknown: not to be told.
 *
 * Form facts JSON: {"form":"multipart","override":false,"parts":2}. form: urlencoded or multipart.
 * override: one name of it would change the method (policy/webform.h).
 *
 * Kubernetes facts JSON:
 * {"k8s":{"dry":false,"finalizers":false,"kind":"Deployment","patch":false,"priv":false,
 * "replicas":0}}. kind and replicas only if the body says them; replicas: the fewest. finalizers:
 * it may take some away. patch: it holds a "$patch". priv: a container gets something of its host.
 *
 * git facts JSON:
 * {"git":{"commands":[{"new":"<hex>","old":"<hex>","ref":"refs/heads/main"}],"end":181,
 * "options":["ticket=7"],"report":true,"sideband":true}}. end: bytes up to the end of commands and
 * options. report, sideband: how the client wants to be answered. Where the pack behind them is
 * whole, "pack":{"commits":3,"exact":true} besides: how many it has, and whether that is all.
 *
 * AWS facts JSON:
 * {"aws":{"accounts":["123456789012"],"actions":["DeleteDBInstance"],"flags":[],"names":
 * ["prod"],"odd":false}}. actions: each place that names one; odd: one of them in another spelling.
 * flags: parameters with values that make another action of it. accounts: of ARNs anywhere.
 *
 * Redis facts JSON: {"redis":[["SET","key","value"]]}: each command's words, of long ones the start
 * and
 * "*", of binary ones "*".
 *
 * MCP facts JSON: {"mcp":{"method":"tools/call","name":"deploy"}}. name: of the tool or prompt, a
 * resource's URI, "" none; method "": an answer to the server.
 */
#ifndef POLICY_FACTS_H
#define POLICY_FACTS_H

#include "common/json.h"
#include "policy/effect.h"

#define FACTS_SQL_MAX ((size_t)65536) /* bytes of SQL text judged; more is "too complex" */
#define FACTS_SQL_COMMENT_DEPTH 16
#define FACTS_JSON_MAX ((size_t)24576) /* bytes of facts; more is "too complex" */
#define FACTS_RELATIONS_MAX 64

#define FACTS_GRAPHQL_MAX ((size_t)1 << 20) /* bytes of a body that is judged as GraphQL */
#define FACTS_GRAPHQL_BATCH_MAX 64
#define FACTS_K8S_MAX ((size_t)4 << 20) /* bytes of a body that is judged as Kubernetes */
#define FACTS_GIT_MAX ((size_t)65536)	/* bytes of a push up to the end of its commands */
#define FACTS_GIT_COMMANDS_MAX 64
#define FACTS_AWS_MAX \
	((size_t)4 << 20) /* bytes of a body that tells an action of AWS, or to what */
#define FACTS_REDIS_MAX ((size_t)65536) /* bytes of the commands judged at once */
#define FACTS_REDIS_WORDS_MAX 1024
#define FACTS_MCP_MAX ((size_t)4 << 20)
#define FACTS_FORM_MAX ((size_t)16 << 20) /* bytes of a form */
#define FACTS_FORM_PARTS_MAX 100000

/* In cofferdam-parser alone. ERR_SYNTAX: the text is not SQL; ERR_TOO_COMPLEX: over a limit. */
int facts_sql(struct str sql, struct buf *ret_json, struct err *err);
/*
 * {"count":"SELECT 1 FROM ..."}: a query whose rows are those that the text, a DELETE or UPDATE of
 * one table alone, would change; its parameters keep their numbers. ERR_UNSUPPORTED: it is no such
 * text.
 */
int facts_sql_count(struct str sql, struct buf *ret_json, struct err *err);
/* The same of a GraphQL request: a URL's query string, or a body with its Content-Type. */
int facts_graphql_query(struct str query, struct buf *ret_json, struct err *err);
int facts_graphql_body(
    struct str content_type, struct str body, struct buf *ret_json, struct err *err);
int facts_k8s(struct str content_type, struct str body, struct buf *ret_json, struct err *err);
/* The first bytes of a push: all of its commands, what stands behind is not looked at. */
int facts_git(struct str bytes, struct buf *ret_json, struct err *err);
int facts_aws_query(struct str query, struct buf *ret_json, struct err *err);
int facts_aws_body(struct str content_type, struct str body, struct buf *ret_json, struct err *err);
/* One command, or those of a transaction; nothing may stand behind. */
int facts_redis(struct str bytes, struct buf *ret_json, struct err *err);
int facts_mcp(struct str body, struct buf *ret_json, struct err *err);
int facts_form(struct str content_type, struct str body, struct buf *ret_json, struct err *err);

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
/* Why the broker refuses it where people would have to approve (0A000), in words; NULL: it does
 * not. */
const char *effects_sql_unapprovable(const struct facts_sql_view *v);

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

#define EFFECTS_ENGINE "cofferdam-effects/5" /* bumped when any classification changes */

#endif
