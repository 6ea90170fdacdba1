/*
 * Runs: an agent's registration, its owner, its listeners. A run lives from run.start to
 * run.end in the log; core rebuilds it from there after a restart.
 */
#ifndef BROKER_CORE_RUN_H
#define BROKER_CORE_RUN_H

#include "broker/core.h"
#include "broker/core_record.h"

struct core_run *core_run_find(const struct core *c, struct str id); /* NULL: none */
/* The target a listener of front's belongs to, and its run; NULL: none. */
struct core_target *core_run_listener(struct core *c, uint32_t listener, struct core_run **ret_run);

/* Memory only. key NULL: a fresh one is made in the blob key directory; ERR_SYSTEM when that fails.
 */
int core_run_new(struct core *c, const char *id, struct core_run **ret, struct err *err);
void core_run_free(struct core_run *run);
/* Strings are copied; fd -1. index: at most ntargets; what was there must be gone. */
void core_run_target_put(struct core_run *run, size_t index, const struct core_target *t);
void core_run_target_add(struct core_run *run, const struct core_target *t); /* behind the others */
void core_run_target_gone(struct core_target *t);	     /* its place may be used again */
void core_run_name_add(struct core_run *run, struct str id); /* it asked for that one */
/* "127.77.x.y" of the index-th target. */
void core_run_address(size_t index, char out[16]);

/* Blob keys: KID.key in the directory; made (O_EXCL, synced) or read. */
int core_run_key(struct core *c, const char *kid, bool make, struct secret **ret, struct err *err);

/* Takes fd: the listening socket of target index, of the family that the plan says. */
int core_run_listen(struct core_run *run, uint32_t index, int fd, struct err *err);
void core_run_listen_send(struct core_run *run, struct core_target *t); /* F_LISTEN */
/* It refuses from now on, whoever else holds it; front and the parent are not told. */
void core_run_listen_shut(int *fd);
void core_run_listen_forget(struct core *c, const char *run, uint32_t index); /* K_DROP_ONE */
/* run.start is durable: parser, listeners to front. Also after front or core came back. */
void core_run_serve(struct core_run *run);
/* Ends it: connections, requests, parser, listeners, run.end. The agent hears A_ENDED or A_KILL. */
void core_run_end(struct core_run *run, const char *status, struct str text, bool by_agent);
/* The same by a person, who is on the record with the reason. */
void core_run_revoke(struct core_run *run, const char *by, struct str reason);
/* One of its streams has its outcome: of a run that ends it was waited for. */
void core_run_stream_ended(struct core_run *run);
void core_run_parser_gone(struct core_run *run);

/* Peers come and go. */
void core_run_front_up(struct core *c);
void core_run_front_gone(struct core *c);

#endif
