/* One answer of a model, put together from its stream; the same for every provider. */
#ifndef AGENT_MODEL_REPLY_H
#define AGENT_MODEL_REPLY_H

#include "common/buf.h"
#include "common/err.h"

#define REPLY_BLOCKS_MAX 256
#define REPLY_BYTES_MAX ((size_t)2 << 20) /* of one block */

enum reply_kind {
	REPLY_TEXT = 1,
	REPLY_TOOL,	/* name, id; text is the arguments' JSON as it came */
	REPLY_THINKING, /* text, signature */
	REPLY_REDACTED, /* text is the sealed data */
	REPLY_UNKNOWN	/* nothing that is ours to understand or to send back */
};

struct reply_block {
	enum reply_kind kind;
	int64_t index; /* the provider's */
	bool given;    /* text is what the begin of the block said; a delta replaces it */
	char *id, *name;
	struct buf text, signature;
};

/* What became of the turn, whatever the provider calls it. */
enum reply_stop {
	REPLY_OPEN = 0, /* the stream has not said */
	REPLY_END,	/* the model has spoken */
	REPLY_CALLS,	/* it waits for answers to its calls */
	REPLY_LENGTH,	/* cut at the limit of one answer */
	REPLY_PAUSE,	/* to be sent back as it is, it goes on then */
	REPLY_REFUSED,	/* by the model or its provider */
	REPLY_FULL	/* the conversation is larger than the model's context */
};

struct reply {
	struct reply_block *blocks;
	size_t n;
	enum reply_stop stop;
	bool ended;			       /* the stream's last event */
	uint64_t tokens_in, tokens_out, bytes; /* cached ones are among those in */
	uint64_t cache_read, cache_write;
	bool usage;		       /* the tokens were said */
	char *error_type, *error_text; /* an error event after 200; NULL: none */
};

void reply_init(struct reply *r);
void reply_free(struct reply *r);
/* The block of that index and kind, made if there is none; ERR_TOO_LARGE. A NULL index (-1) is
 * always a new one. */
int reply_block(struct reply *r, enum reply_kind kind, int64_t index, struct reply_block **ret,
    struct err *err);
struct reply_block *reply_find(struct reply *r, int64_t index); /* NULL: none */
int reply_add(struct reply *r, struct buf *to, struct str more, struct err *err);
void reply_set(char **field, struct str value); /* only if it is still empty, and value is not */
/* Of an answer that was cut, drops what cannot be said back: half a call, thinking without its
 * seal. */
void reply_drop_halves(struct reply *r);
/* Gives calls the id and name that some servers leave out, and that answers refer to. */
void reply_name_calls(struct reply *r);
void reply_error(struct reply *r, struct str type, struct str text);

#endif
