/*
 * Which records a signed head covers, for who gives records on before all are read: their leaves
 * are read first, their tree is held against the signed root, and single ones are kept as marks.
 * Each record has the leaf of the one before it, so a record that leads to a mark is one that was
 * signed. Goes on with later heads where it ended.
 */
#ifndef AUDIT_COVERED_H
#define AUDIT_COVERED_H

#include "audit/checkpoint.h"

#define COVERED_STRIDE 256 /* at most so many records up to the next mark */

struct covered;
struct covered *covered_new(int logdir); /* borrowed */
void covered_free(struct covered *c);
/*
 * Up to the size of this head, whose signature holds; sizes never become smaller. Marks are kept of
 * records from `from` on, which never becomes smaller either: 40 bytes for each COVERED_STRIDE, the
 * last one of each segment and of each head. ERR_TAMPER: the log is not the one that was signed, or
 * ends before that.
 */
int covered_to(struct covered *c, const struct checkpoint *cp, uint64_t from, struct err *err);
/* The leaf that record seq must have; NULL: it is no mark. Asked in ascending order. */
const struct hash *covered_mark(struct covered *c, uint64_t seq);

#endif
