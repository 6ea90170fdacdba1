/* Verbs of `cofferdam log`: one file each, a line each in the table of cmd_log.c. */
#ifndef CMD_CMD_LOG_H
#define CMD_CMD_LOG_H

#include "audit/checkpoint.h"

#define LOG_OPEN_END 3 /* exit status: whole, but with an unsigned or torn end */

/* argv[0] is the verb; the exit status comes back. */
int cmd_log_verify(int argc, char **argv);
int cmd_log_show(int argc, char **argv);
int cmd_log_query(int argc, char **argv);
int cmd_log_index(int argc, char **argv);
int cmd_log_export(int argc, char **argv);
int cmd_log_head(int argc, char **argv);
int cmd_log_prove(int argc, char **argv);
int cmd_log_verify_proof(int argc, char **argv);
int cmd_log_prune(int argc, char **argv);
int cmd_log_verify_receipt(int argc, char **argv);
int cmd_log_erase(int argc, char **argv);
int cmd_log_keys(int argc, char **argv);
int cmd_log_rotate_key(int argc, char **argv);
int cmd_log_reconcile(int argc, char **argv);

/* The outcomes in doubt of a status, for people. */
struct json;
void log_print_doubts(const struct json *status);

/* The newest checkpoint, if it holds; ERR_NOT_FOUND: there is none. */
int log_newest(int logdir, const struct vkeys *keys, struct buf *note, struct err *err);
/* Prints it; CMD_FAILED for what was tampered with, else CMD_USAGE. */
int log_fail(const struct err *err);
/* Says on standard error if the log does not go back to its first record. */
void log_say_pruned(int logdir);

#endif
