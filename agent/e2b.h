/*
 * cofferdam-sandboxd from within: a listener whose workers speak the protocol of E2B's SDKs, and a
 * hub beside the listener that knows which sandboxes there are. Each sandbox is a run with a keeper
 * (agent/keeper.h), so what it reaches is the broker's targets, and what runs in it is on the
 * record.
 */
#ifndef AGENT_E2B_H
#define AGENT_E2B_H

#include "common/jcs.h"
#include "common/json.h"
#include "common/serve_guard.h"
#include "agent/keeper.h"

#define E2B_ENVD_VERSION "0.5.7" /* what SDKs take for the abilities of the data plane */
#define E2B_TIMEOUT_DEFAULT 300	 /* seconds */
#define E2B_JSON_MAX ((size_t)2 << 20)
#define E2B_METADATA_MAX ((size_t)8192) /* of one sandbox, as JSON; its network rules too */
#define E2B_SANDBOXES_MAX 1024

struct e2b_login {
	char *name;
	uint32_t uid;
};

struct e2b_hub;
struct e2b_config {
	struct serve_config serve;
	const char *keys, *logins, *socket, *state;
	struct serve_tokens *tokens;
	struct e2b_login *login; /* whose runs those of a key are; else of who runs this */
	size_t nlogins;
	uint64_t max, max_per_key, upload_mib;
	struct sandbox_limits limits;
	bool limits_optional;
	char *agent_socket;
	int life; /* for keepers: they end when the hub does */
	char hub[64];
	unsigned hub_ms;	 /* for its answers; 0: as long as any client waits */
	struct e2b_hub *own_hub; /* for e2b_hub_leave */
};

/* argv[0] is skipped. ERR_INVALID names the option. */
int e2b_options_parse(int argc, char **argv, struct e2b_config *ret, struct err *err);
void e2b_options_help(void);
/* Keys and logins, off their files. */
int e2b_config_load(struct e2b_config *c, struct err *err);
void e2b_config_free(struct e2b_config *c);

/* --- the hub (e2b_hub.c), beside the listener; its callers are workers (e2b_hub_client.c) --- */

struct e2b_entry {					      /* owns what is in it */
	char *id, *principal, *template, *metadata, *network; /* the last two: JSON objects */
	char *token, *traffic;
	uint32_t as; /* KEEPER_SELF or a user */
	uint32_t timeout_s;
	bool pauses, resumes;
	int64_t started_ms;
	uint64_t serial;
};
void e2b_entry_free(struct e2b_entry *e);
#define AUTO_ENTRY __attribute__((cleanup(e2b_entry_free)))

int e2b_hub_open(struct e2b_config *c, struct e2b_hub **ret, struct err *err);
const struct serve_hook *e2b_hub_hook(struct e2b_hub *h);
/* In a worker: none of the hub's descriptors. */
void e2b_hub_leave(struct e2b_hub *h);
void e2b_hub_close(struct e2b_hub *h);

/* In a worker. ERR_UNAUTHORISED: no such key; ERR_BUSY: no room for one more (429). */
int e2b_hub_reserve(const struct e2b_config *c, struct str key, const struct e2b_entry *want,
    struct e2b_entry *ret, struct err *err);
/* It is there, and belongs to the key that reserved it; or it is not to be. */
int e2b_hub_commit(const struct e2b_config *c, const char *id, struct err *err);
int e2b_hub_release(const struct e2b_config *c, const char *id, struct err *err);
/* ERR_NOT_FOUND: no sandbox of this key's has that id. */
int e2b_hub_find(const struct e2b_config *c, struct str key, struct str id, struct e2b_entry *ret,
    struct err *err);
/* The next of the key's sandboxes behind `after` (0: the first); ERR_NOT_FOUND: that was all. */
int e2b_hub_next(const struct e2b_config *c, struct str key, uint64_t after, struct e2b_entry *ret,
    struct err *err);
/* By one of its own tokens. ERR_NOT_FOUND; ERR_UNAUTHORISED: another token. */
int e2b_hub_token(const struct e2b_config *c, struct str id, struct str token,
    struct e2b_entry *ret, struct err *err);
/* By a signed URL (path:operation:user:token[:expiration], SHA-256); "" is any id. */
int e2b_hub_signed(const struct e2b_config *c, struct str id, struct str text, struct str expires,
    struct str signature, struct e2b_entry *ret, struct err *err);
int e2b_hub_change(
    const struct e2b_config *c, struct str key, const struct e2b_entry *e, struct err *err);

/* --- requests (e2b_route.c) ----------------------------------------------------------------- */

struct e2b_request {
	const struct e2b_config *config;
	struct serve_conn *conn;
	const struct http_request *http;
	struct str id;		/* of the path: a sandbox's, a context's */
	struct str key;		/* control plane: the API key */
	struct e2b_entry entry; /* data plane: whose token it is */
	struct keeper *keeper;	/* data plane: connected */
};
void e2b_serve(void *config, struct serve_conn *c);

/* --- answers (e2b_answer.c) */
void e2b_answer_json(struct e2b_request *q, unsigned status, const struct buf *json);
void e2b_answer_none(struct e2b_request *q); /* 204 */
/* {"code","message"}, of the status that an error of ours has in the control plane. */
void e2b_answer_error(struct e2b_request *q, const struct err *e);
void e2b_answer_fail(struct e2b_request *q, unsigned status, const char *words);
/* The body as JSON, strictly; an empty one is {}. False: answered. */
bool e2b_body_json(struct e2b_request *q, size_t max, struct json_doc **ret);
/* A value of the query, decoded; false: it is not there, or malformed. */
bool e2b_query(const struct e2b_request *q, const char *name, struct buf *ret);
bool e2b_unescape(struct str s, bool plus, struct buf *ret);
/* "2026-11-30T10:11:12.345Z" */
void e2b_time_put(struct jcs *j, const char *key, int64_t ms);

/* --- Connect's JSON protocol (e2b_connect.c) */
#define E2B_FRAME_MAX ((size_t)4 << 20)
/* The first whole message of *in goes to *ret and off *in: 1; 0: more is wanted; ERR_TOO_LARGE,
 * ERR_UNSUPPORTED (compressed), ERR_SYNTAX. *ret_last: it ends the stream. */
int e2b_frame_take(struct str *in, struct str *ret, bool *ret_last, struct err *err);
const char *e2b_connect_code(int code); /* of ERR_*: "not_found" */
/* One message of a stream; the end, with an error unless e is NULL. */
int e2b_frame_send(struct e2b_request *q, const struct buf *json, struct err *err);
void e2b_frame_end(struct e2b_request *q, const struct err *e);
void e2b_connect_fail(struct e2b_request *q, const struct err *e); /* of a call without stream */
/* The request's message: of a call, or the one in the envelope of a stream. False: answered. */
bool e2b_message(struct e2b_request *q, bool stream, struct json_doc **ret);
/* Milliseconds of Connect-Timeout-Ms, 0: none; seconds between keepalives. */
uint64_t e2b_timeout_ms(const struct e2b_request *q);
uint64_t e2b_keepalive_s(const struct e2b_request *q);
/* Of a path as SDKs give it: absolute, or below /work; ~ is /work. False: it has NUL or is over
 * 4096 bytes. */
bool e2b_path(struct str path, struct buf *ret);
/* Of Authorization: Basic, and of username=: nobody but user and agent. False: answered. */
bool e2b_user_ok(struct e2b_request *q, bool connect);

/* --- what is served: control plane (e2b_control.c, e2b_list.c), processes (e2b_process.c,
 * e2b_stream.c), files (e2b_files.c, e2b_fs.c, e2b_watch.c), code (e2b_code.c) */
typedef void e2b_fn(struct e2b_request *q);
e2b_fn e2b_on_create, e2b_on_list, e2b_on_get, e2b_on_delete, e2b_on_timeout, e2b_on_pause,
    e2b_on_connect, e2b_on_network, e2b_on_metrics, e2b_on_refreshes;
e2b_fn e2b_on_start, e2b_on_attach, e2b_on_processes, e2b_on_input, e2b_on_stream_input,
    e2b_on_signal, e2b_on_close_stdin, e2b_on_update;
e2b_fn e2b_on_stat, e2b_on_list_dir, e2b_on_make_dir, e2b_on_move, e2b_on_remove, e2b_on_watch;
e2b_fn e2b_on_file_get, e2b_on_file_post, e2b_on_health;
e2b_fn e2b_on_execute, e2b_on_contexts, e2b_on_context_new, e2b_on_context_restart,
    e2b_on_context_remove;

/* The network rules of a request as what its run is narrowed to: *ret NULL-terminated, and
 * *ret_narrow whether at all. ERR_INVALID, ERR_UNSUPPORTED. (e2b_network.c) */
int e2b_network_rules(const struct json *body, const struct json *network, char ***ret,
    bool *ret_narrow, struct err *err);
void e2b_entry_info(struct jcs *j, const char *name, const struct json *entry); /* e2b_fs.c */

#endif
