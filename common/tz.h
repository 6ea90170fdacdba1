/*
 * Zone rules read from TZif files (RFC 8536) and their POSIX footer. Own code: libical
 * answers UTC when a zone is unknown, and localtime_r needs process-wide state.
 */
#ifndef COMMON_TZ_H
#define COMMON_TZ_H

#include "common/err.h"
#include "common/str.h"

struct tz;

/* IANA name ("Europe/London"), looked up below /usr/share/zoneinfo or $root if not NULL. Unknown:
 * error. */
int tz_load(const char *root, struct str name, struct tz **ret, struct err *err);
/* From the bytes of a TZif file (for the fuzz target and recorded bundles). */
int tz_parse(struct str tzif, struct tz **ret, struct err *err);
void tz_free(struct tz *z);
DEFINE_AUTO(tz, struct tz, tz_free)
int32_t tz_offset(const struct tz *z, int64_t utc_s); /* seconds east of UTC at that instant */
/*
 * All instants (0, 1 or 2) whose wall clock reads local_s (seconds since 1970 as if UTC).
 * Returns how many; in a gap returns 0 and sets out[0] to the earlier and out[1] to the later
 * reading: local_s minus the offset after, and before, the gap's jump, sorted.
 */
int tz_local(const struct tz *z, int64_t local_s, int64_t out[2]);
/* Version of the data ("2024a"), from tzdata.zi or +VERSION; "unknown" if not told. out[16]. */
void tz_version(const char *root, char out[16]);

#endif
