/* Freezes, exceptions and break-glass from the command line: what the three commands share. */
#ifndef CMD_CMD_LIFT_H
#define CMD_CMD_LIFT_H

#include "cmd/cmd_control.h"
#include "policy/lift.h"

/* All options that the three commands have; cmd_freeze.c says which has which. NULL: not given. */
struct lift_args {
	const char *state, *id, *as, *key, *role, *note;
	const char *rule, *target, *env, *run, *effects, *from, *to, *duration, *uses, *ticket,
	    *reason;
	bool yes, json;
};

/* Ask; *ret is the object as the broker has it, `id` its id (the caller frees). */
int lift_ask(enum lift_kind kind, const struct lift_args *a, char **ret_id, struct err *err);
/* Show, build the statement here, sign it with the person's key, send it; print what is so now. */
int lift_sign(enum lift_kind kind, enum lift_decision d, const char *id, const struct lift_args *a,
    struct err *err);
/* Print those of a kind that are open. */
int lift_list(enum lift_kind kind, const struct lift_args *a, struct err *err);
void lift_print(const struct json *o); /* one of them, for people */

/* "2026-12-24T12:00:00Z", or "now"; "90s", "30m", "2h" in seconds. */
int lift_time(const char *text, int64_t *ret_us, struct err *err);
int lift_duration(const char *text, int64_t *ret_s, struct err *err);

#endif
