/* Policy source with options: for the command line and its case files. Core never reads source. */
#ifndef POLICY_POLICY_SOURCE_H
#define POLICY_POLICY_SOURCE_H

#include "common/json.h"
#include "policy/policy.h"

struct policy_source {
	const char *name;     /* for messages */
	const char *dir;      /* of the CA files; NULL: not read */
	const char *zoneroot; /* NULL: /usr/share/zoneinfo */
	/* Keys may be written as bare fingerprints ("sk-ed25519 SHA256:AAAA"): such a policy can be
	 * judged but never built. */
	bool opaque_keys;
};
/* As policy_parse, from a value inside a document (a case file holds policy and cases together). */
int policy_parse_value(const struct json_doc *doc, const struct json *v,
    const struct policy_source *src, struct policy **ret, struct buf *warnings, struct err *err);

#endif
