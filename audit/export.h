/*
 * What of a record may leave the machine, and the forms it leaves in: JSON of our own, OCSF, OTLP.
 * Members go by one list of names: what is not in it stays, whatever a later version records. No
 * sealed content, no signature, no input of a verdict. docs/export.md tells each form.
 */
#ifndef AUDIT_EXPORT_H
#define AUDIT_EXPORT_H

#include "audit/canon_tree.h"
#include "audit/record.h"

#define EXPORT_RECORD_MAX ((size_t)192 << 10) /* one record in any form */
#define EXPORT_ID_MAX 256		      /* ORIGIN#SEQ */
#define EXPORT_TYPE_MAX 64
#define EXPORT_LIST_MAX 32 /* elements of a list */

/* Who is to believe it, and who may read it. */
enum export_class {
	EXPORT_PUBLIC, /* the broker's own: ids, digests, times, names of the policy */
	EXPORT_WORDS,  /* what a person wrote */
	EXPORT_TEXT,   /* names taken out of what would be sent: only where asked for */
	EXPORT_CLAIM,  /* what an agent says of itself */
};

struct export_opts {
	struct str origin;
	bool text;
};
/* A record on its way out; `data` is the root of r->data. */
struct export
{
	const struct export_opts *o;
	const struct record *r;
	const struct hash *leaf;
	const struct canon_node *data;
};

/* Each member that may leave, in ascending order of its name ("decision.verdict"). */
typedef void export_fn(
    void *arg, const char *name, enum export_class c, const struct canon_node *v);
void export_each(const struct export *e, export_fn *fn, void *arg);
/* The member at a dotted name, whether or not it may leave: NULL none. */
const struct canon_node *export_at(const struct canon_node *data, const char *name);
/* Printable text of somebody else's, cut at max bytes with "..." */
void export_words(struct buf *out, struct str s, size_t max);
/* The same of one value, as long as what leaves may be. */
void export_text(struct jcs *j, const char *key, struct str s);
/* A scalar or a list of scalars, cut to what may leave; anything else is left out. */
void export_value(struct jcs *j, const char *key, const struct canon_node *v);
void export_id(const struct export *e, struct buf *out);

/* How much it should be looked at: 1 informational to 5 critical, OCSF's numbers. */
unsigned export_severity(const struct export *e);

/* One record as one JSON value without LF. */
void export_json(const struct export *e, struct buf *out);
void export_ocsf(const struct export *e, struct buf *out);
/* ExportLogsServiceRequest of OTLP, JSON encoding: head, records (`more`: not the first), tail. */
void export_otlp_head(const struct export_opts *o, struct buf *out);
void export_otlp_record(const struct export *e, bool more, struct buf *out);
void export_otlp_tail(struct buf *out);

#endif
