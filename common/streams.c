/*
 * Opens the standard streams that are closed. Runs as the first thing in each program that people
 * start (the broker's children get theirs from their parent). It must never leave one of their
 * numbers to anything else.
 */
#include "common/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/log.h"

#include "common/banned.h"

void
streams_open(void)
{
	int fd;

	for (int want = STDIN_FILENO; want <= STDERR_FILENO; want++) {
		if (fcntl(want, F_GETFD) >= 0 || errno != EBADF)
			continue;
		fd = open("/dev/null", O_RDWR); /* stays open over exec, as any stream */
		if (fd != want)
			fatal("/dev/null: %s: descriptor %d is closed, and must not be taken by "
			      "anything else",
			    fd < 0 ? strerror(errno) : "has another number", want);
	}
}
