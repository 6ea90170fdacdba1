/*
 * filter_gen: the table of system calls (agent/sandbox/filter.tbl), as the compiler of the build
 * sees it. No code of it is in any shipped program.
 */
#ifndef AGENT_SANDBOX_GEN_GEN_H
#define AGENT_SANDBOX_GEN_GEN_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

#define GEN_VALUES_MAX 72
#define GEN_CONDS_MAX 3
#define GEN_RULES_MAX 64 /* bits of gen_call.rules */
#define GEN_CALLS_MAX 1024

struct gen_cond {
	unsigned arg;
	bool negate; /* holds when the argument is none of the values */
	bool whole;  /* the upper 32 bits are compared too: they are 0 in each value */
	uint32_t mask;
	uint32_t value[GEN_VALUES_MAX];
	size_t nvalues;
};

struct gen_answer {
	bool allow, told;
	int error;
};

/* One line of the table. A line with conditions has conds[0].nvalues != 0. */
struct gen_rule {
	struct gen_answer answer;
	const char *calls; /* words */
	struct gen_cond conds[GEN_CONDS_MAX];
};
extern const struct gen_rule gen_rules[];
extern const size_t gen_nrules;

/* One machine, resolved: what each number does. */
struct gen_call {
	const char *name; /* NULL: a number that is not known */
	bool listed;
	struct gen_answer base;
	uint64_t rules; /* bit i: the i-th line with conditions applies, lower ones first */
};
struct gen_machine {
	const char *name;	 /* as the compiler's macro: x86_64 */
	const char *oci;	 /* as OCI and libseccomp call it */
	uint32_t audit, library; /* AUDIT_ARCH_*, SCMP_ARCH_* */
	bool x32;
	struct gen_call call[GEN_CALLS_MAX];
	const struct gen_rule *rule[GEN_RULES_MAX]; /* by bit */
	size_t nrules;
};

/* gen_bpf.c: the program; returns its length and points *ret at it, good until the next call. */
size_t gen_bpf(const struct gen_machine *m, bool notify, const struct sock_filter **ret);
/* gen_oci.c: "seccomp" of an OCI config.json. */
void gen_oci(const struct gen_machine *m, struct buf *out);
/* Ends the build: says why and exits. */
_Noreturn void gen_die(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
