/* Shared by the subcommands of `cofferdam policy`. */
#ifndef CMD_CMD_POLICY_H
#define CMD_CMD_POLICY_H

#include <stdio.h>

#include "cmd/cmd_parser.h"
#include "common/json.h"
#include "policy/effects_git.h"
#include "policy/effects_http.h"
#include "policy/policy.h"
#include "policy/policy_review.h"
#include "policy/policy_source.h"

struct policy_file {
	char *dir;		 /* where it stands: CA files and includes are relative to it */
	struct policy_docs docs; /* the root first, then what it includes; of a bundle none */
	size_t nparts;		 /* the policy in each of them */
	struct policy_part *parts;
	struct policy *policy;
	bool bundle; /* what build wrote */
	struct buf warnings;
};
void policy_file_free(struct policy_file *f);
#define AUTO_POLICY_FILE __attribute__((cleanup(policy_file_free)))
enum policy_file_how {
	POLICY_FILE_CA = 1,	/* read the CA files that targets name */
	POLICY_FILE_BUNDLE = 2, /* a bundle will do, too */
	POLICY_FILE_CASES = 4,	/* policy and cases together; keys may be bare fingerprints */
};
/* Reads source (or a bundle). ret may be freed after an error as well. */
int policy_file_open(const char *path, unsigned how, struct policy_file *ret, struct err *err);
/* What check and build say of it at the end. */
void policy_summary_print(const struct policy_file *f);
struct policy_theorems {
	size_t n, failed;
	struct str first; /* that does not hold; borrowed from the review */
};
/* Proves all; those that do not hold are named on standard error. */
int policy_check_theorems(
    struct policy_review *r, const char *file, struct policy_theorems *ret, struct err *err);
/* The bundle that `active` in dir names; *ret stays NULL when nothing is active yet. */
int policy_active_load(const char *dir, struct policy **ret, struct err *err);
/* Only `active`: the bundle stands there. */
int policy_active_write(int dirfd, const struct policy *p, struct err *err);
/* "2026-12-24T12:00:00Z" or "2026-12-24". */
int policy_time_parse(const char *text, int64_t *ret_us, struct err *err);

/* One SQL text, judged as core would. `relations` and the strings borrow from *facts and *doc. */
struct policy_sql {
	struct cmd_facts facts;
	struct json_doc *doc; /* facts */
	struct str relations[FACTS_RELATIONS_MAX];
	struct policy_input input;
	const char
	    *unapprovable; /* why core refuses it where it needs approval; NULL: it does not */
};
void policy_sql_free(struct policy_sql *s);
#define AUTO_POLICY_SQL __attribute__((cleanup(policy_sql_free)))
int policy_sql_input(const struct policy *p, struct cmd_parser *parser, struct str target,
    struct str sql, struct policy_sql *ret, struct err *err);
/* The verdict. True: core itself refuses, as opaque (in *in, too), what nobody could sign for. */
bool policy_sql_judge(
    const struct policy *p, const char *unapprovable, struct policy_input *in, struct decision *d);

/* One HTTP request, judged as core would; strings are borrowed. */
struct policy_http_request {
	struct str target, method, path; /* path: with its query, if it has one */
	struct str content_type;	 /* empty: as `headers` say */
	struct str body;
	bool has_body;
	size_t nheaders;
	struct http_field headers[HTTP_FIELDS_MAX];
	/* Of the commands of a push, by whoever looked into its objects; nseen 0: nobody did. */
	const struct git_seen *seen;
	size_t nseen;
};
struct policy_http {
	struct http_view view;
	struct cmd_answer facts; /* of what the view wanted judged; else empty */
	struct str names[RESOURCES_MAX];
	struct policy_input input; /* its relations are names; do not copy it away from here */
};
void policy_http_free(struct policy_http *h);
#define AUTO_POLICY_HTTP __attribute__((cleanup(policy_http_free)))
int policy_http_input(const struct policy *p, struct cmd_parser *parser,
    const struct policy_http_request *q, struct policy_http *ret, struct err *err);

/* Each prints its own errors and returns an exit status. argv[0] is the subcommand's name. */
int policy_check_main(int argc, char **argv);
int policy_build_main(int argc, char **argv);
int policy_sign_main(int argc, char **argv);
int policy_activate_main(int argc, char **argv);
int policy_test_main(int argc, char **argv);
int policy_explain_main(int argc, char **argv);
int policy_calendar_main(int argc, char **argv);
int policy_prove_main(int argc, char **argv);
int policy_diff_main(int argc, char **argv);
int policy_import_main(int argc, char **argv);
/* Text from a file under review: control and non-ASCII bytes as \xNN, line feeds as they are. */
void policy_print(FILE *f, struct str s);
int policy_fail(
    const struct err *err); /* prints "cofferdam: ..."; returns CMD_FAILED or CMD_USAGE */
/* The same where 1 means something else: always CMD_USAGE. */
int policy_undecided(const struct err *err);
/* One line of JSON. */
void policy_print_json(const struct buf *out);

/* The string member `key` of obj; "" if anything of that is not there. obj may be NULL. */
struct str policy_member_str(const struct json *obj, const char *key);

/* One case; what differs goes to why. */
struct policy_case_result {
	bool ok;
	struct buf why;
};
/* Cases of targets that do not speak HTTP, or in a short form (cmd_policy_kind.c). */
struct policy_kind {
	struct policy_http http; /* where it is a request */
	struct policy_input input;
	struct resources resources;
	struct str names[RESOURCES_MAX];
};
void policy_kind_free(struct policy_kind *k);
/*
 * What a case's "input" sends: updates (a push), action (AWS), command or commands (Redis), tool
 * (MCP). ERR_NOT_FOUND: none of these. The owner, agent and instant are the caller's to add.
 */
int policy_kind_input(const struct policy *p, struct cmd_parser *parser, const struct json *in,
    struct policy_kind *ret, struct err *err);
typedef int policy_case_fn(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err);
policy_case_fn *policy_case_find(struct str group); /* NULL: not supported */
policy_case_fn policy_case_own;			    /* of a policy's own cases */
policy_case_fn policy_case_approval;

#endif
