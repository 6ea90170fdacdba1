/*
 * The options and words of commands. Runs as the person who types them; the one reader of tables
 * reads them (common/option.c). What no row names is not taken, and it is said which it is and what
 * is wanted.
 */
#include "cmd/cmd_args.h"

#include <stdarg.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_help.h"
#include "cmd/cmd_policy.h"
#include "cmd/cmd_time.h"
#include "cmd/cmd_via.h"
#include "common/log.h"
#include "common/str.h"
#include "common/xalloc.h"

#include "common/banned.h"

int
args_wrong(const char *command, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL, *vis = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	vis = log_vis(str_z(text)); /* of words that may have been copied from elsewhere */
	(void)fprintf(stderr, "cofferdam: %s: %s\n", command, vis);
	return cmd_usage(command);
}

static int
word_of(const struct option_row *r, const char *value, unsigned *ret, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(value));
	struct str rest = str_z(r->arg), word;
	bool more = true;

	for (unsigned i = 0; more; i++) {
		more = str_cut(&rest, '|', &word);
		if (!str_eqz(more ? word : rest, value))
			continue;
		*ret = i;
		return 0;
	}
	return err_set(err, ERR_INVALID, "%s must be %s, is \"%s\"", r->name, r->arg, vis);
}

static int
ago(const struct option_row *r, const char *value, int64_t *ret, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(value));

	return cmd_time_read(value, OPTION_KIND(r) == ARG_UNTIL, ret)
		   ? 0
		   : err_set(err, ERR_INVALID, "%s must be " CMD_TIME_WANTED ", is \"%s\"", r->name,
			 vis);
}

static int
own(void *into, const struct option_row *r, const char *value, struct err *err)
{
	void *at = (char *)into + r->at;
	struct arg_many *many = at;

	switch (OPTION_KIND(r)) {
	case ARG_MANY: return option_add(r, many->v, &many->n, ARRAY_LEN(many->v), value, err);
	case ARG_WORD_OF: return word_of(r, value, at, err);
	case ARG_SET: *(unsigned *)at = (unsigned)r->min; return 0;
	case ARG_TIME:
		return policy_time_parse(value, at, err) == 0 ? 0 : err_wrap(err, "%s", r->name);
	case ARG_SINCE:
	case ARG_UNTIL: return ago(r, value, at, err);
	default: return via_place(at, value, OPTION_KIND(r) == ARG_VIA, err);
	}
}

static bool
whole(const char *command, const struct option_line *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct option_row *r = &l->rows[i];
		bool word = (r->kind & OPTION_WORD) != 0;

		if ((r->kind & OPTION_NEEDED) == 0 || !option_counts(l, r) || (l->seen >> i & 1))
			continue;
		(void)fprintf(stderr, "cofferdam: %s needs %s%s%s: %s\n", command, r->name,
		    word ? "" : " ", word ? "" : r->arg, r->what);
		(void)cmd_usage(command);
		return false;
	}
	return true;
}

bool
args_read(const char *command, const struct option_row *rows, size_t nrows, unsigned groups,
    int argc, char **argv, void *to)
{
	struct option_line l = {
	    .rows = rows, .n = nrows, .groups = groups, .beginnings = true, .own = own, .into = to};
	struct err err;

	if (cmd_help_asked(argc, argv)) {
		option_help(rows, nrows, groups);
		return false;
	}
	if (option_read(&l, argc, argv, &err) == 0)
		return whole(command, &l);
	(void)args_wrong(command, "%s", err.msg);
	return false;
}
