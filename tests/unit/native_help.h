/*
 * A native sandbox under test, started through the back end as the supervisor would, and the other
 * end of pid 1's wire.
 */
#ifndef TESTS_NATIVE_HELP_H
#define TESTS_NATIVE_HELP_H

#include <pthread.h>

#include "agent/sandbox/backend.h"
#include "agent/sandbox/filter.h"
#include "tests/unit/init_help.h"

struct native_box {
	struct backend_box b;
	struct box wire;
	uint32_t procs;
	pthread_t answers; /* to what the filter tells */
};

static inline void *
native_answers(void *arg)
{
	const struct native_box *n = arg;
	struct filter_counts *c = filter_counts_new();

	while (poll(&(struct pollfd){n->b.notify, POLLIN, 0}, 1, -1) < 0 ||
	       filter_notify_turn(n->b.notify, c, 64))
		continue;
	filter_counts_free(c);
	return NULL;
}

static inline struct super_spec
spec_plain(void)
{
	return (struct super_spec){.limits = sandbox_limits_default()};
}

static inline void
native_up(const struct super_spec *s, struct native_box *n)
{
	struct err e = {0};
	struct frame f;

	memset(n, 0, sizeof(*n));
	if (backend_native.start(s, &n->b, &e) != 0)
		fail_msg("%s", e.msg);
	n->wire = (struct box){.wire = n->b.inside, .pid = n->b.child};
	frame_want(&n->wire, &f, INSIDE_READY, 0);
	assert_int_equal(pthread_create(&n->answers, NULL, native_answers, n), 0);
}

static inline void
native_down(struct native_box *n)
{
	/* The listener ends with the last process under the filter. */
	(void)kill(n->b.child, SIGKILL);
	(void)pthread_join(n->answers, NULL);
	backend_native.end(&n->b);
}

/* A line of the shell to its end; wait status. */
static inline int
native_sh(struct native_box *n, const char *line, char *out, size_t size)
{
	struct spawn s = SH(line);

	s.env[0] = "PATH=/usr/bin:/bin";
	return run(&n->wire, ++n->procs, &s, out, size);
}

#endif
