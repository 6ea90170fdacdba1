/*
 * The file of recorded answers that `cofferdam replay rerun` hands to cofferdam-rerun: RERUN_MAGIC,
 * then entries in the order of the record, each a str (u32 length, bytes) of the fields below.
 * Integers are big-endian. Written and read by one build within one command; not kept.
 *
 *   u8 kind, str host, u32 port, u8 how, u8 sent known, bytes32 sent, str match, u8 ok, u64 rows,
 *   str tag, str sqlstate, str message, str detail, str hint, u16 HTTP status,
 *   list(str name, str value) fields, str answer
 */
#ifndef COMMON_RERUN_H
#define COMMON_RERUN_H

#define RERUN_MAGIC "cofferdam-rerun/1\n"
#define RERUN_BYTES_MAX ((size_t)256 << 20)

enum rerun_kind { RERUN_CONNECT = 1, RERUN_PG = 2, RERUN_HTTP = 3 };
/* What became of it then. */
enum rerun_how { RERUN_ANSWERED = 1, RERUN_REFUSED = 2, RERUN_MISSING = 3 };

#endif
