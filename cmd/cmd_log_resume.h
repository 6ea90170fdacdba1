/* The file of `cofferdam log verify --resume`: one checkpoint, up to which a run has judged all. */
#ifndef CMD_CMD_LOG_RESUME_H
#define CMD_CMD_LOG_RESUME_H

#include "audit/verify.h"
#include "cmd/cmd_place.h"

struct log_resume {
	const char *file, *name; /* as it was given; in its directory */
	int dir, logdir;
	const struct vkeys *keys;
	struct pin pin; /* what it held at the beginning; size 0: it was not there */
	struct buf before;
	uint64_t size; /* of what it holds now */
	struct checkpoint held;
	char held_name[48]; /* the newest head that held, and its file in the log */
	uint64_t last_us;   /* when it was written */
	bool failed;	    /* it could not be written, which was said */
};

/*
 * Takes the file if it is there. `file`, `place` and `keys` (whoever was handed over to among them)
 * stay the caller's. ERR_CONFIG names the file, what it is and what it must be.
 */
int log_resume_open(const char *file, const struct cmd_place *place, const struct vkeys *keys,
    struct log_resume *ret, struct err *err);
void log_resume_close(struct log_resume *r);
#define AUTO_LOG_RESUME __attribute__((cleanup(log_resume_close)))

/* A verify_held_fn; arg is the log_resume. Writes the file if it was not for a while. */
void log_resume_held(void *arg, const char *name, const struct checkpoint *cp);
/* From now on SIGINT and SIGTERM only make this not 0; the second of one kind ends the program. */
const volatile sig_atomic_t *log_resume_signals(void);
/*
 * All was judged: the file goes on to the newest head that held. Where something was found it does
 * not, and what this run wrote is taken back if it reaches further than that. False: it could not
 * be written, which was said.
 */
bool log_resume_end(struct log_resume *r, const struct verdict *v);
/* Stopped by such a signal: writes the file, says how far it came, and ends by that signal; else
 * the exit status. */
int log_resume_stopped(struct log_resume *r, const struct verdict *v);

#endif
