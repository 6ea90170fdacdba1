/* Policy source with options: for the command line and its case files. Core never reads source. */
#ifndef POLICY_POLICY_SOURCE_H
#define POLICY_POLICY_SOURCE_H

#include "common/json.h"
#include "policy/policy.h"

struct policy_source {
	const char *name; /* for messages */
	/* Where the policy stands: CA files and included files are relative to it, and never leave
	 * it. NULL: no CA file is read, and an include is an error. */
	const char *dir;
	bool no_ca;	      /* CA files are not read: for test and explain */
	const char *zoneroot; /* NULL: /usr/share/zoneinfo */
	/* Keys may be written as bare fingerprints ("sk-ed25519 SHA256:AAAA"): such a policy can be
	 * judged but never built. */
	bool opaque_keys;
};
/* The documents that a source stands in: the root, and behind it what it includes, in order. */
struct policy_docs {
	size_t n;
	struct json_doc **v;
};
void policy_docs_free(struct policy_docs *d);
#define AUTO_POLICY_DOCS __attribute__((cleanup(policy_docs_free)))
/* The same for a member that may stand in each of them, as "cases": all their elements. */
size_t policy_docs_count(const struct policy_docs *d, const char *key);
/* As policy_parse, keeping the documents; *docs is empty before, and may be freed after an error.
 */
int policy_parse_docs(struct str text, const struct policy_source *src, struct policy_docs *docs,
    struct policy **ret, struct buf *warnings, struct err *err);
/* As policy_parse, from a value inside a document (a case file holds policy and cases together). */
int policy_parse_value(const struct json_doc *doc, const struct json *v,
    const struct policy_source *src, struct policy **ret, struct buf *warnings, struct err *err);

#endif
