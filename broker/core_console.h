/*
 * People in their browsers, as core sees them: the console's calls, and the sessions that let one
 * look. A session is opened by an assertion that core verified, names one person, and lets that
 * person's browser look; every decision needs an assertion of its own.
 */
#ifndef BROKER_CORE_CONSOLE_H
#define BROKER_CORE_CONSOLE_H

#include "broker/core_control.h"
#include "common/weborigin.h"

#define CORE_SESSIONS_MAX 64
#define CORE_SESSION_S 3600
#define CORE_SIGN_IN_S 120 /* from the challenge to its assertion */
#define CORE_SIGN_INS_MAX 256
#define CORE_NONCE_LEN 48

struct core_desk *core_desk_new(void);
void core_desk_free(struct core_desk *d);
/* The console's origin as the parent's configuration has it; empty: there is no console. */
int core_desk_origin(struct core_desk *d, struct str text, struct err *err);
struct str core_desk_origin_text(const struct core_desk *d); /* empty: none */

/* One V_CALL. */
int core_console_on_call(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* Was `peer` a call of the console's? Then it is answered. */
bool core_console_reply(struct core *c, uint64_t peer, int code, struct str result);
/* What people look at may be another now: said once until the console asks again. */
void core_console_changed(struct core *c);
/* The console's process is gone, and all sessions with it. */
void core_console_gone(struct core *c);

/* --- core_session.c: verbs without a session, and the sessions they open */
struct core_session {
	struct hash token; /* SHA-256 of what the browser has */
	char *person;	   /* NULL: free */
	uint64_t until_ms; /* of the loop's clock */
};
/* A sign-in that was used: its nonce opens nothing again. */
struct core_used {
	uint8_t nonce[CORE_NONCE_LEN];
	uint64_t until_ms; /* 0: free */
};
struct core_call_slot {
	uint64_t serial, call; /* 0: free */
};
#define CORE_CALLS_MAX 256

#define CORE_INVITES_MAX 64

struct core_invite {
	char id[CORE_ID_SIZE]; /* "" free */
	char *person;
	int64_t until_us;
	struct hash token; /* SHA-256 of what the link has */
	bool open;	   /* signed, and that is on the record */
	bool busy;	   /* something about it is being recorded */
};

struct core_desk {
	char *origin;
	struct weborigin at; /* where origin is not empty */
	bool told;
	struct core_call_slot calls[CORE_CALLS_MAX];
	struct core_invite invites[CORE_INVITES_MAX];
	struct core_session sessions[CORE_SESSIONS_MAX];
	struct core_used used[CORE_SIGN_INS_MAX];
	uint8_t key[32]; /* of nonces; random, this process's */
};

/* The person whose session it is; NULL: nobody's, over, or no person of the policy any more. */
const struct policy_person *core_session_person(struct core *c, struct str token);
void core_session_end_all(struct core_desk *d);
/* {} to {"challenge","nonce"}: what a browser is to sign. Keeps nothing. */
int core_session_begin(struct core_call *call, struct err *err);
/* {"nonce","person","signature"} to {"person","session","seconds"}. */
int core_session_open(struct core_call *call, struct err *err);
int64_t core_session_left(struct core *c, struct str token); /* seconds; 0: none */
void core_session_close(struct core *c, struct str token);

/* --- core_look.c: what only browsers ask */
int core_look_statement(struct core_call *call, struct err *err);
int core_look_calendars(struct core_call *call, struct err *err);

#endif
