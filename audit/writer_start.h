/* What the writer is given before it is confined: the log's directory, its key and its name. */
#ifndef AUDIT_WRITER_START_H
#define AUDIT_WRITER_START_H

#include "audit/cosign.h"
#include "audit/handover.h"
#include "audit/writer_sign.h"
#include "common/json.h"

struct start {
	int logdir, key_fd, vkey_fd, handover_fd; /* -1: not here */
	char origin[ORIGIN_MAX + 1];
	char boot[64];		  /* boot id */
	struct handover handover; /* of our key, when there is a note of it */
	struct buf handover_note; /* empty: none */
	struct cosigners witnesses;
};
#define START_EMPTY                                                           \
	{                                                                     \
		.logdir = -1, .key_fd = -1, .vkey_fd = -1, .handover_fd = -1, \
		.handover_note = BUF(HANDOVER_MAX)                            \
	}

/* ERR_CONFIG: no origin that a log can have. */
int start_config(struct start *s, const struct json *config, struct err *err);
/* Keeps fd for good; false: not one of these, or a second one, and it is still the caller's. */
bool start_fd(struct start *s, struct str name, int fd);
/* All is here: reads key, handover and boot id, closes the files. The caller frees the signer. */
int start_go(struct start *s, struct signer **ret, struct err *err);

#endif
