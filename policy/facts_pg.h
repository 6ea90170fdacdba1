/* PostgreSQL settings by name: the closed list of harmless ones, for SET and for the start-up
 * packet. */
#ifndef POLICY_FACTS_PG_H
#define POLICY_FACTS_PG_H

#include "common/str.h"

/* policy/pg_settings.tbl, without case. */
bool facts_pg_setting_harmless(struct str name);
/*
 * Is `value` the one that the broker itself pins for this setting (client_encoding UTF8,
 * standard_conforming_strings on)? Setting it once more changes nothing.
 */
bool facts_pg_pinned_value(struct str name, struct str value);

#endif
