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
#define RECORD_SUFFIX_LEN 75 /* ,"hash":"64 hex"} */

/* The line of a BODY, with LF; and back. A line that is not of the form gives ERR_TAMPER. */
void record_line(struct buf *out, struct str body, struct hash *ret_leaf);
int record_parse_line(struct str line, struct str *ret_body, struct hash *ret_leaf, struct err *err);
struct hash record_leaf(struct str body); /* SHA-256(0x00 || body), RFC 6962 2.1 */

#endif
