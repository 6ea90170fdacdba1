/* `data` of each record that core writes: canonical JSON, keys as docs/format-log.md lists them. */
#ifndef BROKER_CORE_DATA_H
#define BROKER_CORE_DATA_H

#include "broker/core_approve.h"

struct core_act;
struct core_http;

void core_data_input(struct jcs *j, const char *key, const struct policy_input *in);
/* Shared by the files that build data: a time, 32 bytes in hex, a number that may be too large. */
void core_data_time(struct jcs *j, const char *key, int64_t us);
void core_data_hash(struct jcs *j, const char *key, const struct hash *h);
void core_data_count(struct jcs *j, const char *key, uint64_t n);

struct core_data_action {
	const struct core_action *a;
	const struct core_from *from;
	const char *kind; /* query sync flush cut, or "startup" */
	const struct blob_ref *head;
	const struct hash *sent; /* NULL: nothing goes upstream */
	bool wrap;
	unsigned witnesses;	      /* that must have cosigned it first */
	const char *poison;	      /* token that goes upstream instead; NULL none */
	const char *cancels;	      /* the action that a cancel is for */
	const struct core_http *http; /* NULL: PostgreSQL */
};
void core_data_action(struct buf *out, const struct core_data_action *d);

struct core_data_outcome {
	const char *action;
	uint64_t seq;
	const char *status;
	struct str tag, sqlstate;
	uint64_t rows, answer_bytes, duration_us;
	const struct hash *sent;   /* NULL: "" */
	const struct hash *copied; /* COPY data from the client; NULL: none was asked for */
	uint64_t copied_bytes;
	unsigned shared;	       /* actions in the same exchange, when more than one */
	struct str peer, peer_cert;    /* connect: who answered */
	const struct blob_ref *answer; /* sealed; NULL: not kept */
	struct str preview;	       /* what the target had said of it before people signed */
	bool reads;		       /* core_action_reads */
	const char *why;	       /* NULL: not told */
};
/* Member "reads" of an outcome that would be in doubt otherwise. */
void core_data_reads(struct jcs *j, bool reads, const char *status);
void core_data_outcome(struct buf *out, const struct core_data_outcome *d);

void core_data_request(
    struct buf *out, const struct core_request *rq, const struct blob_ref *show, struct str frame);
/* {id}, {id,reason}, {id,use_by}, {id,action} */
void core_data_id(struct buf *out, const char *id, const char *key, const char *value);
void core_data_run_start(
    struct buf *out, const struct core_run *run, const struct blob_ref *task, struct str level);
/* What a run has now, and what came and went: run->patch. */
void core_data_run_targets(struct buf *out, const struct core_run *run);
void core_data_run_revoke(struct buf *out, const char *by, struct str reason);
/* spent: a canonical JSON object; NULL: not told. */
void core_data_run_end(struct buf *out, const char *status, struct str text, const char *spent);
/* p may be NULL: it was no bundle. */
void core_data_policy_refused(struct buf *out, const struct policy *p, const char *reason);
void core_data_policy_load(struct buf *out, const struct policy *p, const struct blob_ref *bundle);
/* approval.grant, approval.deny: also a signed revoke */
struct core_data_grant {
	const char *id;
	struct str person, role, key, signature, note, reason; /* reason: only of a void */
	struct hash statement;
	const struct sig_sshsig *by; /* of a hardware key flags and counter are told */
	int64_t at_us;
};
void core_data_grant(struct buf *out, const struct core_data_grant *g);
/* person and key are left out when empty */
void core_data_rejected(
    struct buf *out, const char *id, struct str person, struct str key, const char *reason);

#endif
