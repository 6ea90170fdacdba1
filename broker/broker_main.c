/*
 * cofferdam-broker, the parent. Only the arguments are read here; all else is in
 * broker_serve.c, where a test can reach it.
 */
#include <stdio.h>

#include "broker/broker_parent.h"

#include "common/log.h"
#include "common/option.h"
#include "common/streams.h"

#include "common/banned.h"

#define STATE_DEFAULT "/var/lib/cofferdam"

struct args {
	const char *state;
	bool foreground, help;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"--state", OPTION_TEXT, AT(state), 0, 0, "DIR",
	"state directory (default: " STATE_DEFAULT "); made by cofferdam init"},
    {"--foreground", OPTION_FLAG, AT(foreground), 0, 0, NULL, "stay in the foreground (always so)"},
    {"--help", OPTION_FLAG, AT(help), 0, 0, NULL, NULL},
};

int
main(int argc, char **argv)
{
	struct args a = {.state = STATE_DEFAULT};
	struct option_line l = {.rows = rows, .n = ARRAY_LEN(rows), .beginnings = true, .into = &a};
	struct err err = {0};
	bool wrong;

	streams_open();
	wrong = option_read(&l, argc, argv, &err) != 0;
	if (!wrong && !a.help) {
		log_init("broker", LOG_INFO_);
		return broker_serve(a.state);
	}
	if (wrong)
		(void)fprintf(stderr, "cofferdam-broker: %s\n", err.msg);
	(void)fprintf(
	    wrong ? stderr : stdout, "usage: cofferdam-broker [--state DIR] [--foreground]\n");
	if (!wrong)
		option_help(rows, ARRAY_LEN(rows), 0);
	return wrong ? 2 : 0;
}
