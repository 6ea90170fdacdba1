/*
 * What a keeper, its callers and its holders say to each other, in frames of wire.h. A request on a
 * caller's connection gets one DONE or ERROR (u32 -code, str text). Encodings as in common/buf.h.
 */
#ifndef AGENT_KEEPER_WIRE_H
#define AGENT_KEEPER_WIRE_H

#include "agent/keeper.h"
#include "agent/sandbox/wire.h"

#define KEEPER_SOCKET "cofferdam-keeper-" /* and the id, in the abstract name space */
#define KEEPER_WIRE_FD 3		  /* of a keeper that starts */
#define KEEPER_LIFE_FD 4
#define KEEPER_ASK_MS 60000  /* for what waits for broker or sandbox */
#define KEEPER_LIST_MAX 1024 /* entries of any list */

enum keeper_call {
	KEEPER_ASK = 1, /* keeper_ask_encode; first, by who started it -> as HELLO */
	KEEPER_HELLO,	/* -> str id, str run, str owner, u32 pid */
	KEEPER_DONE,
	KEEPER_ERROR,
	KEEPER_STATE,	 /* -> str JSON */
	KEEPER_TIME,	 /* u32 seconds, u8 pauses */
	KEEPER_PAUSE,	 /* */
	KEEPER_RESUME,	 /* u32 seconds */
	KEEPER_NARROW,	 /* list allow */
	KEEPER_EVENT,	 /* str type, str fields, str content */
	KEEPER_END,	 /* str status, str text */
	KEEPER_PROGRAM,	 /* caller, keeper_program_encode -> u32 number; fd: the stream */
	KEEPER_ATTACH,	 /* u32 number -> fd: the stream */
	KEEPER_PROGRAMS, /* -> str JSON */
	KEEPER_INPUT,	 /* u32 number, u8 close, str bytes */
	KEEPER_SIGNAL,	 /* u32 number, u32 signal */
	KEEPER_RESIZE,	 /* u32 number, u16 rows, u16 cols */
	KEEPER_CONTEXT,	 /* str language, str cwd, u8 shared -> str id; fd: the stream, if begun */
	KEEPER_CONTEXTS, /* -> str JSON */
	KEEPER_CLOSE,	 /* str id of a context */
	KEEPER_RESTART,	 /* str id */
	KEEPER_CELL,	 /* caller, str id, u32 timeout ms, str code -> fd: the stream */
	KEEPER_QUERY,	 /* str verb, str arguments -> str JSON */
};

/* Between the keeper and a holder, the process of one program or context. */
enum keeper_hold {
	HOLD_STREAM = 64, /* to it, fd: one more stream of the program */
	HOLD_INPUT,	  /* u8 close, str bytes */
	HOLD_SIGNAL,	  /* u32 signal */
	HOLD_RESIZE,	  /* u16 rows, u16 cols */
	HOLD_CELL,	  /* u64 turn, u32 timeout ms, str code; fd: its stream */
	HOLD_RESTART,	  /* */
	HOLD_RESULT,	  /* from it: str fields, str content; answered by HOLD_NOTED */
	HOLD_NOTED,	  /* it is on the record */
	HOLD_GONE,	  /* from it: str why; the sandbox is not there any more */
};

/* Streams: frames of enum keeper_event_type.
 * STARTED u32 number. OUTPUT u32 stream, the bytes. DISPLAY u32 result, the JSON. FAILED u32 -code,
 * str text. ENDED u8 cause, u32 value, u8 end, u64 total, u64 duration us, str name, error, trace.
 */

/* The caller of a request: five texts. They point into the frame, cut at KEEPER_CALLER_MAX. */
#define KEEPER_CALLER_TEXTS 5
void keeper_caller_put(struct buf *out, const struct keeper_caller *c); /* NULL: none */
void keeper_caller_take(struct rd *r, struct str ret[KEEPER_CALLER_TEXTS]);

void keeper_list_put(struct buf *out, const char *const *list, size_t n);
/* NULL-terminated, each text owned by it; NULL when malformed. keeper_list_free. */
char **keeper_list_take(struct rd *r, size_t *ret_n);
void keeper_list_free(char **list);
DEFINE_AUTO(keeper_list, char *, keeper_list_free)
/* A text without NUL; *r is bad else. Empty is NULL. The caller frees. */
char *keeper_text_take(struct rd *r);

void keeper_ask_encode(const struct keeper_ask *a, struct buf *out);
struct keeper_asked { /* owns what is in it */
	struct keeper_ask a;
	char *id, *socket, *agent, *task, *workspace, *state;
	char *bind_paths[SANDBOX_BINDS_MAX], *bind_insides[SANDBOX_BINDS_MAX];
	struct sandbox_bind binds[SANDBOX_BINDS_MAX]; /* a.nbinds of them; a.binds is not set */
	char **targets, **allow, **env;
};
int keeper_ask_decode(struct str body, struct keeper_asked *ret, struct err *err);
void keeper_asked_free(struct keeper_asked *a);

void keeper_program_encode(const struct sandbox_exec *x, const char *label, struct buf *out);
struct keeper_order { /* owns what is in it */
	struct sandbox_exec x;
	char *language, *cwd, *label;
	char **argv, **env;
	struct buf code, input;
};
int keeper_program_decode(struct str body, struct keeper_order *ret, struct err *err);
void keeper_order_free(struct keeper_order *o);

void keeper_error_put(struct buf *out, const struct err *e);
/* The other end of *fd is a process of this user. */
bool keeper_peer_is_ours(int fd);

#endif
