/* A request for approval as the broker shows it, and the statement built from it here. */
#ifndef CMD_CMD_REQUEST_H
#define CMD_CMD_REQUEST_H

#include "cmd/cmd_control.h"
#include "common/buf.h"
#include "policy/statement.h"

/* person may be NULL. */
int request_fetch(
    const char *state, const char *id, const char *person, struct json_doc **ret, struct err *err);
/* The action in full, as raw bytes. */
int request_action(const struct json *o, struct buf *ret, struct err *err);
/* `show` is what request_action gave; all borrowed. */
struct statement request_statement(const struct json *o, const char *decision, struct str role,
    struct str person, struct str show);
/* For people: the action in full, what is missing, and last, marked, the agent's words. */
int request_print(const struct json *o, struct err *err);

#endif
