/*
 * Records of the decision log: type names and the keys of their `data`, used by core, writer,
 * verifier and replay. docs/format-log.md is the specification; BODY is canonical JSON:
 *   {"batch":N,"data":{...},"mono":N,"prev":"hex","run":"r-..."?,"seq":N,"src":"broker","time":"...",
 *    "type":"action","v":1}
 */
#ifndef AUDIT_RECORD_H
#define AUDIT_RECORD_H

#include "common/hash.h"
#include "common/jcs.h"

#define RECORD_BODY_MAX ((size_t)65535)
#define RECORD_PREFIX "{\"body\":"
#define RECORD_PREFIX_LEN 8
#define RECORD_SUFFIX_LEN 75 /* ,"hash":"64 hex"} */
#define RECORD_LINE_MAX (RECORD_PREFIX_LEN + RECORD_BODY_MAX + RECORD_SUFFIX_LEN + 1)
#define RECORD_VERSION 1

/* The line of a BODY, with LF; and back. A line that is not of the form gives ERR_TAMPER. */
void record_line(struct buf *out, struct str body, struct hash *ret_leaf);
int record_parse_line(
    struct str line, struct str *ret_body, struct hash *ret_leaf, struct err *err);
struct hash record_leaf(struct str body); /* SHA-256(0x00 || body), RFC 6962 2.1 */

/* The envelope; strings are borrowed from the BODY. */
struct record {
	struct str body;
	uint64_t batch, seq, mono;
	struct hash prev;
	struct str data; /* canonical JSON object */
	struct str run;	 /* empty if none */
	struct str src, time, type;
};
/* ERR_TAMPER when BODY is not canonical or has not exactly the members of the envelope. */
int record_parse(struct str body, struct record *ret, struct err *err);
/* BODY of r (r->body is not read). r->data must have passed canon_check; asserts the rest. */
void record_body(struct buf *out, const struct record *r);
bool record_src_ok(struct str src);   /* broker, agent, human, operator */
bool record_type_ok(struct str type); /* [a-z0-9_.]+, at most 64 */
bool record_run_ok(struct str run);   /* [A-Za-z0-9._-]+, at most 64 */
/* log.close and log.full: the writer ends with it, and only a start stands behind it. */
bool record_ends(struct str type);
/* What may stand behind those, up to the log.open: log.segment, log.recovered, log.full, log.key.
 */
bool record_of_start(struct str type);

#endif
