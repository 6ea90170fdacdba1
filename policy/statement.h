/*
 * The approval statement: the ASCII bytes a person signs, built by core from its own pending
 * record and by the command line from what core showed. Nobody ever parses it.
 */
#ifndef POLICY_STATEMENT_H
#define POLICY_STATEMENT_H

#include "common/buf.h"
#include "common/err.h"

#define STATEMENT_NAMESPACE "cofferdam-approval"
#define STATEMENT_SHOW_MAX \
	4096 /* bytes of the action shown in full; beyond it: digest and length */
#define STATEMENT_MAX ((size_t)32768)
#define STATEMENT_FIELD_MAX 512 /* bytes before encoding */
#define STATEMENT_NOTE_MAX 256
#define STATEMENT_LIST_MAX 2560 /* effects and rules: lists */

/*
 * What every signed text is made of: "NAME: VALUE" and LF, with what is not printable ASCII, and
 * '%', percent-encoded. ERR_INVALID, which names `what` and the line, when a value is empty or too
 * long.
 */
struct statement_line {
	const char *name;
	struct str value;
	size_t max;
};
int statement_lines(
    const char *what, const struct statement_line *l, size_t n, struct buf *out, struct err *err);

struct statement {
	struct str decision;	   /* approve | deny | revoke */
	struct str broker;	   /* sha256:<hex of the log's verifier key line> */
	struct str request;	   /* base32 */
	struct str action, policy; /* sha256:<hex> */
	struct str log_head;	   /* ORIGIN SIZE ROOT(base64) */
	struct str agent, run, owner, target, effects, rule, role, approver;
	struct str note;    /* the signer's own words; empty: "none" */
	int64_t max_rows;   /* -1: "none" */
	struct str preview; /* what the target said of it beforehand; empty: "none" */
	int64_t not_before_us, approve_by_us;
	int64_t use_within_s;
	struct str show; /* the action as text, raw bytes; encoded here */
};
/* Percent-encodes what is not printable ASCII; ERR_INVALID when a field is empty or too long. */
int statement_bytes(const struct statement *s, struct buf *out, struct err *err);

#endif
