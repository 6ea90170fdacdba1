/* What the data of an outcome's record says of doubt: one rule for all who read or write a log. */
#ifndef AUDIT_OUTCOME_H
#define AUDIT_OUTCOME_H

#include <stdbool.h>

#include "common/str.h"

bool outcome_leaves_doubt(struct str status); /* nobody knows what became of it */
/*
 * Such an outcome, unless what was asked for only reads (member "reads"): then nothing is changed,
 * whatever became of it.
 */
bool outcome_in_doubt(struct str data);

#endif
