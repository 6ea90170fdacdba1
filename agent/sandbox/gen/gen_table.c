/*
 * filter_gen, at build time: filter.tbl as an array. The constants in it are this machine's
 * headers'; all of them are the same on every machine that has a filter.
 */
#include "agent/sandbox/gen/gen.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fiemap.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/banned.h"

#define TMPFILE_BIT 020000000 /* of O_TMPFILE, which is also O_DIRECTORY */

#define ALL_BITS 0xffffffffu
#define SET(...) .value = {__VA_ARGS__}, .nvalues = sizeof((const uint32_t[]){__VA_ARGS__}) / 4
#define IN(a, ...)                                             \
	{                                                      \
		.arg = (a), .mask = ALL_BITS, SET(__VA_ARGS__) \
	}
#define NOT_IN(a, ...)                                                         \
	{                                                                      \
		.arg = (a), .negate = true, .mask = ALL_BITS, SET(__VA_ARGS__) \
	}
#define WHOLE_IN(a, ...)                                                      \
	{                                                                     \
		.arg = (a), .whole = true, .mask = ALL_BITS, SET(__VA_ARGS__) \
	}
#define WHOLE_NOT_IN(a, ...)                                                                  \
	{                                                                                     \
		.arg = (a), .negate = true, .whole = true, .mask = ALL_BITS, SET(__VA_ARGS__) \
	}
#define BITS_IN(a, m, ...)                                \
	{                                                 \
		.arg = (a), .mask = (m), SET(__VA_ARGS__) \
	}
#define BITS_NOT_IN(a, m, ...)                                            \
	{                                                                 \
		.arg = (a), .negate = true, .mask = (m), SET(__VA_ARGS__) \
	}
#define HAS(a, m) BITS_NOT_IN(a, m, 0)

#define PLAIN false
#define TOLD true
#define ALLOW(names) {.answer = {.allow = true}, .calls = (names)},
#define REFUSE(how, e, names) {.answer = {.told = (how), .error = (e)}, .calls = (names)},
#define IF(how, e, names, ...) \
	{.answer = {.told = (how), .error = (e)}, .calls = (names), .conds = {__VA_ARGS__}},
#define NUMBER(name, x86_64, aarch64)

const struct gen_rule gen_rules[] = {
#include "agent/sandbox/filter.tbl"
};
const size_t gen_nrules = ARRAY_LEN(gen_rules);
