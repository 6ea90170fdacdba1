/*
 * `cofferdam replay rerun`: what a run's log says was run, asked and answered, in order; the same
 * of the second time; and where they first part.
 */
#ifndef CMD_CMD_RERUN_H
#define CMD_CMD_RERUN_H

#include "audit/blob.h"
#include "cmd/cmd_replay_case.h"
#include "common/rerun.h"

enum rerun_what { RERUN_EXEC, RERUN_ACTION, RERUN_RESULT };
/* How an event of the first time stands to the second. */
enum rerun_then { RERUN_ALLOWED, RERUN_DENIED };

struct rerun_event {
	enum rerun_what what;
	enum rerun_then then;
	bool missing;	     /* an action that was answered, and the answer is not here */
	uint64_t seq, group; /* group: actions of one exchange share it; 0 none */
	char *text;	     /* for people */
	char *request;	     /* of an action: all of it that must be the same */
	char *effects, *body;
	struct buf content; /* code, or output */
	char *cause;	    /* of a result: how it ended */
	char *action;	    /* its id */
};

/* A run, read. */
struct rerun_run {
	const char *id;
	struct replay_blobs *blobs;
	struct rerun_event *v;
	size_t n;
	/* Only where they are wanted: */
	bool first; /* the first time: script and answers are made */
	struct buf script, answers;
	struct buf agent, task, owner, digest;
	char **targets; /* names asked for; none: all */
	size_t ntargets;
	char **argv; /* of `run -- COMMAND`; NULL: the loop's */
	struct json_doc *start;
	unsigned skipped;    /* calls that are not run again */
	struct buf skipping; /* their names */
	bool skip, done;     /* the call under way is one of them; the script has its end */
	struct buf words;    /* of the model, until it is known whether they are the last */
	bool have_words;
	char *end;	/* how the run ended; NULL: not */
	struct err why; /* it cannot be run again; code 0: it can */
	/* Of the exchange whose answer is awaited: by the id of its last allowed action. */
	struct rerun_wait *waits;
};

/* cmd_rerun_read.c: one record of it. */
void rerun_read_init(struct rerun_run *r, const char *id, struct replay_blobs *blobs, bool first);
void rerun_read(void *arg, const struct record *rec); /* replay_each_fn */
void rerun_read_end(struct rerun_run *r);
void rerun_read_free(struct rerun_run *r);

/* cmd_rerun_script.c: the model's words and calls. */
void rerun_script_record(struct rerun_run *r, const struct record *rec, const struct json *d);
void rerun_script_end(struct rerun_run *r);

/* cmd_rerun_answers.c: what was answered then, as cofferdam-rerun reads it. */
void rerun_answers_action(struct rerun_run *r, const struct record *rec, const struct json *d);
void rerun_answers_outcome(struct rerun_run *r, const struct record *rec, const struct json *d);
void rerun_answers_end(struct rerun_run *r);

bool rerun_is_escape(struct str effect);

/* cmd_rerun_stage.c: a broker of its own, in a directory that goes away. */
struct rerun_stage {
	char dir[96], *state; /* short: sockets lie beneath it */
	int janitor[2];	      /* its end tells who removes the directory */
	int broker;	      /* process ids; 0: none */
	int keeper;
};
int rerun_stage_open(struct rerun_stage *s, struct err *err);
/* bundle: the policy that was in force. */
int rerun_stage_run(struct rerun_stage *s, const struct rerun_run *first, struct str bundle,
    const char *workspace, struct err *err);
void rerun_stage_close(struct rerun_stage *s);

/* cmd_rerun_compare.c: prints; CMD_OK, CMD_FAILED (they part), or RERUN_UNDECIDED. */
#define RERUN_UNDECIDED 3
int rerun_compare(const struct rerun_run *then, const struct rerun_run *now);

#endif
