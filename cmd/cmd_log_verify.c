/*
 * `cofferdam log verify`: the verdict on a log directory, by public keys alone. Runs as whoever
 * wants to know; needs read access to the log and public keys, nothing else.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/verify.h"
#include "audit/verify_witness.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_log_deep.h"
#include "cmd/cmd_log_resume.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

struct verify_args {
	const char *state, *dir, *vkey, *resume;
	struct arg_many pin;
	bool deep, json, progress;
};

#define AT(f) offsetof(struct verify_args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE", ARG_KEYS_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE", NULL},
    {"--pin", ARG_MANY, AT(pin), 0, 0, "CHECKPOINT",
	"a file with a checkpoint kept elsewhere; up to 64"},
    {"--deep", OPTION_FLAG, AT(deep), 0, 0, NULL,
	"open what is sealed, and hold signatures against statements built anew from records"},
    {"--resume", OPTION_TEXT, AT(resume), 0, 0, "FILE",
	"keep in FILE how far it came, and go on there if it was ended"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, "the verdict as JSON"},
    {"--progress", OPTION_FLAG, AT(progress), 0, 0, NULL, "tell how far it is, as on a terminal"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static int
open_pins(const struct verify_args *a, const struct vkeys *keys, struct pin pins[ARG_MANY_MAX],
    struct err *err)
{
	for (size_t i = 0; i < a->pin.n; i++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
		const struct vkey *key;
		int r = file_read(AT_FDCWD, a->pin.v[i], &note, err);

		if (r != 0)
			return r;
		pins[i].name = a->pin.v[i];
		if (checkpoint_open(buf_str(&note), keys, &pins[i].cp, &key, err) != 0) {
			(void)err_wrap(err, "%s", a->pin.v[i]);
			err->code = ERR_CONFIG; /* a bad pin says nothing about the log */
			return ERR_CONFIG;
		}
	}
	return 0;
}

static void
found(void *arg, const struct log_fault *f)
{
	verdict_fault(arg, f);
}

/* Keys of witnesses stand beside those of the log. */
static int
read_witnesses(const struct verify_args *a, struct cosigners *ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF((size_t)1 << 16);
	int r;

	*ret = (struct cosigners){0};
	if (a->vkey == NULL)
		return 0;
	r = file_read(AT_FDCWD, a->vkey, &text, err);
	return r != 0 ? r : cosigners_parse(buf_str(&text), a->vkey, ret, err);
}

/* What is told while it reads: how far it is, and each head that holds. */
struct telling {
	struct log_resume *resume;
	bool any; /* a line about progress stands there */
};

/* On a line of its own that is written over and cleared at the end. */
static void
told(void *arg, uint64_t records, size_t segment, size_t segments)
{
	struct telling *t = arg;

	t->any = true;
	(void)fprintf(
	    stderr, "\r%" PRIu64 " records, segment %zu of %zu", records, segment, segments);
}

static void
held(void *arg, const char *name, const struct checkpoint *cp)
{
	struct telling *t = arg;

	log_resume_held(t->resume, name, cp);
}

/* 1: by a signal it was stopped. */
static int
judge(const struct cmd_place *place, const struct vkeys *keys, const struct pin *pins,
    const struct cosigners *who, const struct verify_args *a, struct log_resume *resume,
    struct verdict *v, struct err *err)
{
	struct telling t = {.resume = resume};
	struct verify_ask ask = {.pins = pins,
	    .npins = a->pin.n,
	    .told = a->progress || isatty(2) == 1 ? told : NULL,
	    .arg = &t};
	int r;

	if (a->resume != NULL) {
		ask.resume = resume->pin.cp.size != 0 ? &resume->pin : NULL;
		ask.held = held;
		ask.stop = log_resume_signals();
	}
	r = verify_log_asked(place->logdir, keys, &ask, v, err);
	if (t.any)
		(void)fprintf(stderr, "\r%60s\r", "");
	return r != 0 ? r : verify_witnesses(place->logdir, keys, who, v, err);
}

static int
open_resume(const struct verify_args *a, const struct cmd_place *place, const struct vkeys *keys,
    struct log_resume *ret, struct err *err)
{
	int r = a->resume != NULL ? log_resume_open(a->resume, place, keys, ret, err) : 0;

	if (r == 0 && a->resume != NULL && ret->pin.cp.size == 0)
		(void)fprintf(
		    stderr, "cofferdam: %s is not there: begins at record 0\n", a->resume);
	return r;
}

static void
print(const struct verify_args *a, const struct verdict *v, const struct buf *deep)
{
	AUTO_BUF struct buf out = BUF((size_t)1 << 20);

	if (a->json) {
		verdict_put_json(&out, v, buf_str(deep));
	} else {
		buf_put_str(&out, buf_str(deep));
		verdict_put(&out, v);
	}
	(void)fwrite(out.p, 1, out.n, stdout);
}

int
cmd_log_verify(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_LOG_RESUME struct log_resume resume = {.dir = -1};
	AUTO_BUF struct buf deep = BUF(65536);
	struct verify_args a = {0};
	struct pin pins[ARG_MANY_MAX];
	struct cosigners who;
	struct verdict v;
	struct vkeys keys;
	struct err err = {0};
	bool kept = true;
	int r;

	if (!ARGS_READ("log verify", rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.deep && a.resume != NULL)
		return args_wrong("log verify",
		    "--deep opens and builds anew all there is each time, so it cannot go on from "
		    "--resume \"%s\": give one of them",
		    a.resume);
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    read_witnesses(&a, &who, &err) != 0 || open_pins(&a, &keys, pins, &err) != 0 ||
	    open_resume(&a, &place, &keys, &resume, &err) != 0 ||
	    (r = judge(&place, &keys, pins, &who, &a, &resume, &v, &err)) < 0 ||
	    (a.deep && log_deep(&place, v.size, found, &v, &deep, &v.unread, &err) != 0))
		return log_fail(&err);
	if (r != 0)
		return log_resume_stopped(&resume, &v);
	if (a.resume != NULL)
		kept = log_resume_end(&resume, &v);
	print(&a, &v, &deep);
	return kept || verdict_status(&v) == CMD_FAILED ? verdict_status(&v) : CMD_USAGE;
}
