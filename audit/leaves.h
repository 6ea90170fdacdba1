/*
 * The leaf hashes of a log in their order, as its files give them: those of .leaves, or of the
 * lines where there are none. None is believed: who reads them holds their tree against a signed
 * root.
 */
#ifndef AUDIT_LEAVES_H
#define AUDIT_LEAVES_H

#include "audit/segment.h"

/* The next leaf to be read, and where its line begins, if that is known. {0}: the first. */
struct leaves_place {
	uint64_t seq;
	uint64_t segment, off;
};
/* `ends`: it is the last one of a segment that another one follows. */
typedef void leaves_fn(void *arg, uint64_t seq, const struct hash *leaf, bool ends);
/*
 * From *at, which is behind them then, up to record size - 1. `files` are those of seg/.
 * ERR_TAMPER: a record is not there or not whole; those before it were given.
 */
int leaves_each(int segdir, const struct log_files *files, struct leaves_place *at, uint64_t size,
    leaves_fn *fn, void *arg, struct err *err);

#endif
