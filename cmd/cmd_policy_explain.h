/* Between the files of `cofferdam policy explain`. */
#ifndef CMD_CMD_POLICY_EXPLAIN_H
#define CMD_CMD_POLICY_EXPLAIN_H

#include "cmd/cmd_policy.h"
#include "policy/policy_witness.h"

/* One action, judged: what is told of it. Strings are borrowed. */
struct explanation {
	const struct policy *p;
	struct policy_request request;
	struct decision decision;
	const char *action; /* "sql", "request"; NULL: it was given as effects */
	struct str text;    /* of the action */
	const char *api;    /* of an HTTP request; else NULL */
	struct str facts;   /* as core would have them; empty: none */
	const char *fault;  /* what is wrong with the request; NULL: nothing */
	const char *broker; /* why the broker refuses it itself; NULL: it does not */
};
void explanation_print(const struct explanation *e);
void explanation_print_json(const struct explanation *e);

#endif
