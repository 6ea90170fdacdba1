/* One cofferdam-parser for one command: facts as core gets them, for test and explain. */
#ifndef CMD_CMD_PARSER_H
#define CMD_CMD_PARSER_H

#include "common/buf.h"
#include "common/err.h"
#include "policy/facts.h"

struct cmd_parser;
/* Starts the confined child. Nothing is started twice: one per invocation of the command. */
int cmd_parser_start(struct cmd_parser **ret, struct err *err);
void cmd_parser_stop(struct cmd_parser *p); /* kills and reaps it; NULL is fine */
DEFINE_AUTO(cmd_parser, struct cmd_parser, cmd_parser_stop)

struct cmd_facts {
	struct facts_sql_view view; /* effects invalid for what is no SQL or over a limit */
	struct buf json;	    /* as the parser sent it, or the reason why there is none */
	bool parsed;
};
void cmd_facts_free(struct cmd_facts *f);
#define AUTO_FACTS __attribute__((cleanup(cmd_facts_free)))
/*
 * What core would learn of one text. Too long, not UTF-8, with a NUL, or killing the parser: all
 * invalid, as in core. An error only when the parser itself cannot be had.
 */
int cmd_parser_facts(struct cmd_parser *p, struct str sql, struct cmd_facts *ret, struct err *err);

/* What X_FACTS said: facts JSON if `parsed`, else the reason why there are none. */
struct cmd_answer {
	struct buf text;
	bool parsed;
};
void cmd_answer_free(struct cmd_answer *a);
#define AUTO_ANSWER __attribute__((cleanup(cmd_answer_free)))
/* A query string or commands; a body, sealed as core has it. Dialects as in ipc_msg.tbl. */
int cmd_parser_text(struct cmd_parser *p, uint8_t dialect, struct str text, struct cmd_answer *ret,
    struct err *err);
int cmd_parser_body(struct cmd_parser *p, uint8_t dialect, struct str content_type, struct str body,
    struct cmd_answer *ret, struct err *err);

#endif
