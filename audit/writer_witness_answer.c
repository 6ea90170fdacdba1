/*
 * What a witness answered. Runs in the writer. The courier in between and the witness itself may
 * say anything: a cosignature counts when it verifies over the very text that was asked, a refusal
 * makes that witness count for nothing. What looks like a fork or a rollback is kept, goes on the
 * record, and stands until that witness cosigns again; only a head that this log's own key signed
 * proves one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/writer_witness_int.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/log.h"

#include "common/banned.h"

#define ANSWER_TRIES 3 /* other sizes that it may name in a row */

const char *
conflict_name(enum conflict k)
{
	switch (k) {
	case CONFLICT_NONE: return "none";
	case CONFLICT_FORK: return "fork";
	case CONFLICT_ROLLBACK: break;
	}
	return "rollback";
}

static void
record_conflict(struct witnesses *w, const struct one *o, unsigned status, const char *file,
    const struct hash *sha256, uint64_t theirs)
{
	AUTO_BUF struct buf data = BUF(2048);
	struct err err = {0};
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_hex(&j, "evidence", sha256->b, HASH_LEN);
	if (file[0] != '\0')
		jcs_z(&j, "file", file);
	jcs_z(&j, "kind", conflict_name(o->conflict));
	if (o->proven)
		jcs_bool(&j, "proven", true);
	jcs_int(&j, "size", (int64_t)o->asked_size);
	jcs_int(&j, "status", status);
	if (status == COSIGN_CONFLICT)
		jcs_int(&j, "theirs", (int64_t)theirs);
	jcs_z(&j, "witness", o->key.name);
	jcs_close(&j);
	if (store_append(w->store, "log.conflict", STR("broker"), STR(""), buf_str(&data), &seq,
		NULL, &err) != 0)
		log_error("log.conflict: %s", err.msg); /* the store is dead, and says so itself */
}

void
wit_conflict(struct witnesses *w, struct one *o, enum conflict kind, bool proven, unsigned status,
    struct str answer, uint64_t theirs)
{
	struct hash sha256;
	struct err err = {0};
	char file[32];
	bool is_new = o->conflict != kind || o->proven != proven;

	o->conflict = kind;
	o->proven = proven;
	if (is_new && wit_files_evidence(w, o, status, answer, file, &sha256, &err) != 0) {
		log_error("evidence against this log cannot be kept: %s", err.msg);
		file[0] = '\0';
	}
	if (is_new)
		record_conflict(w, o, status, file, &sha256, theirs);
	if (kind == CONFLICT_ROLLBACK)
		wit_failed(w, o,
		    "rollback: it %s size %" PRIu64 ", this log has %" PRIu64
		    " records: an older state of it was put back",
		    proven ? "cosigned" : "says that it cosigned", theirs, store_size(w->store));
	else
		wit_failed(w, o,
		    "fork: %swhat it cosigned for size %" PRIu64
		    " is not the beginning of this log of size %" PRIu64,
		    proven ? "" : "it says that ", theirs, o->asked_size);
}

/* --- 200 ------------------------------------------------------------------------------------ */

static void
cosigned(struct one *o, const struct checkpoint *cp)
{
	struct tree_span *span = o->span;

	if (o->since_us != 0 || o->conflict != CONFLICT_NONE)
		log_info("witness %s has cosigned size %" PRIu64, o->key.name, cp->size);
	o->span = o->next;
	o->next = span;
	o->spanned = o->cosigned = true;
	o->size = cp->size;
	o->root = cp->root;
	o->failed = o->moved = 0;
	o->since_us = 0;
	o->why[0] = '\0';
	o->conflict = CONFLICT_NONE;
	o->proven = false;
}

static void
on_line(struct witnesses *w, struct one *o, struct str body)
{
	struct str text, sigs, line;
	struct checkpoint cp;
	struct err err = {0};
	uint64_t at_s;

	if (!cosign_note_split(buf_str(&o->note), &text, &sigs) ||
	    checkpoint_parse_text(text, &cp, &err) != 0)
		fatal("the newest checkpoint is not of the form");
	if (cosign_answer_parse(body, &o->key, text, &line, &at_s, &err) != 0)
		wit_failed(w, o, "its answer does not verify: %s", err.msg);
	else if (wit_files_add(w, o, line, &err) != 0)
		wit_failed(w, o, "its cosignature cannot be kept: %s", err.msg);
	else
		cosigned(o, &cp);
}

/* --- refusals -------------------------------------------------------------------------------- */

/* It stands elsewhere than we thought: an answer was lost, or it lost its memory. */
static void
stands_at(struct witnesses *w, struct one *o, uint64_t size)
{
	if (size < o->size && o->cosigned)
		log_warn("witness %s cosigned size %" PRIu64 " and says now that it was %" PRIu64
			 ": an older state of it was put back",
		    o->key.name, o->size, size);
	/* Not failed: after a time away, too, it is followed to where it stands. */
	if (++o->moved > ANSWER_TRIES) {
		o->moved = 0;
		wit_failed(w, o, "it names another size at each try, now %" PRIu64, size);
		return;
	}
	o->size = size;
	o->cosigned = o->spanned = false;
	o->due_ms = 0;
	wit_locate(w, o);
}

static void
on_conflict(struct witnesses *w, struct one *o, struct str body)
{
	uint64_t theirs;

	if (!cosign_conflict_parse(body, &theirs))
		wit_failed(w, o, "it answered 409 without a size");
	else if (theirs > store_size(w->store))
		wit_conflict(w, o, CONFLICT_ROLLBACK, false, COSIGN_CONFLICT, body, theirs);
	else if (theirs == o->size)
		wit_conflict(w, o, CONFLICT_FORK, false, COSIGN_CONFLICT, body, theirs);
	else
		stands_at(w, o, theirs);
}

void
wit_answer(struct witnesses *w, struct one *o, unsigned status, struct str body, struct str why)
{
	switch (status) {
	case 0: wit_failed(w, o, "%.*s", STR_ARG(why)); break;
	case COSIGN_OK: on_line(w, o, body); break;
	case COSIGN_CONFLICT: on_conflict(w, o, body); break;
	case COSIGN_FORK:
		wit_conflict(w, o, CONFLICT_FORK, false, COSIGN_FORK, body, o->size);
		break;
	case COSIGN_UNSIGNED:
	case COSIGN_UNKNOWN:
		wit_failed(w, o,
		    "it answered %u: it does not know this log's key (there: cofferdam witness "
		    "add DIR KEY)",
		    status);
		break;
	default: wit_failed(w, o, "it answered %u", status); break;
	}
}
