/* Runs in the command line: the list of what has no end yet, for the gaps that a timeline names. */
#include "audit/replay_open.h"

#include <stdlib.h>

#include "common/xalloc.h"

#include "common/banned.h"

void
replay_open_add(struct replay_open **list, bool run, struct str id, uint64_t seq)
{
	struct replay_open *o = xcalloc(1, sizeof(*o));

	while (*list != NULL)
		list = &(*list)->next;
	o->id = str_dup(id);
	o->run = run;
	o->seq = seq;
	*list = o;
}

static void
unlink_first(struct replay_open **list)
{
	struct replay_open *o = *list;

	*list = o->next;
	free(o->id);
	free(o);
}

void
replay_open_drop(struct replay_open **list, bool run, struct str id)
{
	for (; *list != NULL; list = &(*list)->next) {
		if ((*list)->run != run || !str_eqz(id, (*list)->id))
			continue;
		unlink_first(list);
		return;
	}
}

void
replay_open_free(struct replay_open **list)
{
	while (*list != NULL)
		unlink_first(list);
}
