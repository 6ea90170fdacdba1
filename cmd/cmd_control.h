/* One question to the broker's control socket. */
#ifndef CMD_CMD_CONTROL_H
#define CMD_CMD_CONTROL_H

#include "common/json.h"

/*
 * Calls `verb` with `args` (a JSON object) at STATE/run/control.sock (state NULL: the default
 * place); *ret is the result object. Errors of the broker come back with its code and text.
 */
int control_call(
    const char *state, const char *verb, struct str args, struct json_doc **ret, struct err *err);
/* The same, and the connection, on which more will come; the caller closes *ret_fd. */
int control_stay(const char *state, const char *verb, struct str args, struct json_doc **ret,
    int *ret_fd, struct err *err);
/* The same of a signature: while another one is being recorded it is sent again, some seconds. */
int control_sign(
    const char *state, const char *verb, struct str args, struct json_doc **ret, struct err *err);
/* A string member of a result, safe for a terminal; the caller frees. */
char *control_text(const struct json *o, const char *key);
/* "dba:1, oncall:1" of an array member; the caller frees. */
char *control_list(const struct json *o, const char *key);

#endif
