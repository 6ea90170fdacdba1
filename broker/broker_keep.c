/*
 * Spare copies of the runs' listeners, in the parent: a core that was restarted gets them
 * back, so that the sandbox finds its broker where it was. They are only held, never accepted
 * from. What core says of them is bounded; core itself holds as many.
 */
#include <string.h>
#include <unistd.h>

#include "broker/broker_parent.h"

#include "common/xalloc.h"

#include "common/banned.h"

int
broker_keep(struct broker *b, struct str run, uint32_t index, int fd, struct err *err)
{
	AUTO_FD int own = fd;
	struct kept *k;

	for (k = b->kept; k != NULL; k = k->next)
		if (k->index == index && str_eqz(run, k->run))
			return err_set(err, ERR_EXISTS, "listener %u of run %.*s is kept already",
			    index, STR_ARG(run));
	if (b->kept_n == BROKER_KEPT_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "at most %d listeners are kept", BROKER_KEPT_MAX);
	k = xcalloc(1, sizeof(*k));
	k->fd = TAKE_FD(own);
	k->index = index;
	memcpy(k->run, run.p, run.n);
	k->next = b->kept;
	b->kept = k;
	b->kept_n++;
	return 0;
}

void
broker_keep_drop(struct broker *b, struct str run, const uint32_t *index)
{
	struct kept **at = &b->kept;

	while (*at != NULL) {
		struct kept *k = *at;

		if (!str_eqz(run, k->run) || (index != NULL && *index != k->index)) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		(void)close(k->fd);
		free(k);
		b->kept_n--;
	}
}

void
broker_keep_send(struct broker *b, struct ipc *core)
{
	for (const struct kept *k = b->kept; k != NULL; k = k->next) {
		AUTO_BUF struct buf body = BUF(512);

		buf_lz(&body, k->run);
		buf_u32(&body, k->index);
		ipc_send(core, MSG_K_KEPT, &body, &k->fd, 1);
	}
	ipc_send(core, MSG_K_KEPT_END, NULL, NULL, 0);
}
