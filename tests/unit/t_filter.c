/*
 * The compiled system call filter, for each machine, against the table: its BPF is run here over
 * every number and over arguments at and around each value that any rule knows, and so is what
 * libseccomp makes of the form for OCI run times. Then this machine's is loaded, and tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FILTER_ALL
#include "agent/sandbox/filter.h"
#include "agent/sandbox/filter_bpf.h"
#include "tests/unit/filter_help.h"

#include <cjson/cJSON.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/banned.h"

#define ENOSYS_ANSWER (SECCOMP_RET_ERRNO | ENOSYS)
#define ROUNDS_CONDITIONAL 60000
#define ROUNDS_PLAIN 64

struct program {
	const struct sock_filter *p;
	size_t n;
};
static const struct machine {
	const char *name;
	uint32_t arch, library;
	struct program errors, notify;
	const char *oci;
	const char *names;
	size_t nnames;
} machines[] = {
#define MACHINE(m, audit, scmp)                                                                   \
	{                                                                                         \
#m, audit, scmp,                                                                  \
		    {filter_##m##_errors, ARRAY_LEN(filter_##m##_errors) },                       \
			{filter_##m##_notify, ARRAY_LEN(filter_##m##_notify) }, filter_##m##_oci, \
			    filter_##m##_names, FILTER_##m##_NAMES                                \
	}
    MACHINE(x86_64, AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64),
    MACHINE(aarch64, AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64),
};
#define EACH_MACHINE(m)                     \
	const struct machine *m = machines; \
	m < machines + ARRAY_LEN(machines); \
	m++

/* --- a machine for BPF, strict: what the kernel would not load is a failure ------------------- */

static size_t steps, longest;

static uint32_t
bpf_run(struct program f, const struct seccomp_data *d)
{
	uint32_t a = 0;

	steps = 0;
	for (size_t i = 0; i < f.n; i++) {
		uint32_t k = f.p[i].k;

		steps++;
		switch (f.p[i].code) {
		case BPF_RET | BPF_K: longest = steps > longest ? steps : longest; return k;
		case BPF_LD | BPF_W | BPF_ABS: memcpy(&a, (const char *)d + k, 4); break;
		case BPF_ALU | BPF_AND | BPF_K: a &= k; break;
		case BPF_JMP | BPF_JA: i += k; break;
		case BPF_JMP | BPF_JEQ | BPF_K: i += a == k ? f.p[i].jt : f.p[i].jf; break;
		case BPF_JMP | BPF_JGT | BPF_K: i += a > k ? f.p[i].jt : f.p[i].jf; break;
		case BPF_JMP | BPF_JGE | BPF_K: i += a >= k ? f.p[i].jt : f.p[i].jf; break;
		case BPF_JMP | BPF_JSET | BPF_K: i += (a & k) != 0 ? f.p[i].jt : f.p[i].jf; break;
		default: fail_msg("instruction %zu has code 0x%x", i, (unsigned)f.p[i].code);
		}
	}
	fail_msg("it runs over the end");
	return 0;
}

static void
each_program_is_one_that_the_kernel_would_load(void **state UNUSED)
{
	for (EACH_MACHINE(m))
		for (unsigned v = 0; v < 2; v++) {
			struct program f = v == 0 ? m->errors : m->notify;

			assert_true(f.n > 100 && f.n <= BPF_MAXINSNS);
			assert_int_equal(BPF_CLASS(f.p[f.n - 1].code), BPF_RET);
			for (size_t i = 0; i < f.n; i++) {
				size_t far = f.p[i].jt > f.p[i].jf ? f.p[i].jt : f.p[i].jf;

				if (f.p[i].code == (BPF_JMP | BPF_JA))
					far = f.p[i].k;
				if (BPF_CLASS(f.p[i].code) == BPF_JMP)
					assert_true(i + 1 + far < f.n);
				if (BPF_CLASS(f.p[i].code) == BPF_LD)
					assert_true(f.p[i].k <= sizeof(struct seccomp_data) - 4 &&
						    f.p[i].k % 4 == 0);
			}
			print_message("# %s, %s: %zu instructions\n", m->name,
			    v == 0 ? "errors" : "notify", f.n);
		}
}

/* --- numbers ---------------------------------------------------------------------------------- */

static const char *
name_of(const struct machine *m, size_t nr)
{
	const char *p = m->names;

	if (nr >= m->nnames)
		return "";
	while (nr-- > 0)
		p += strlen(p) + 1;
	return p;
}

static void
names_are_those_of_the_library_and_of_the_headers(void **state UNUSED)
{
	for (EACH_MACHINE(m))
		for (int nr = 0; nr < 1024; nr++) {
			AUTO_FREE char *s = seccomp_syscall_resolve_num_arch(m->library, nr);

			if (s != NULL)
				assert_string_equal(name_of(m, (size_t)nr), s);
		}
	assert_string_equal(filter_call_name(SYS_read), "read");
	assert_string_equal(filter_call_name(SYS_io_uring_setup), "io_uring_setup");
	assert_string_equal(filter_call_name(462), "mseal");
	assert_null(filter_call_name(1000));
	assert_null(filter_call_name(UINT32_MAX));
	assert_true(filter_allowed() > 200);
}

static uint64_t seed = 88172645463325252u;

static uint64_t
any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Values that rules know, each bit, and small numbers. */
static uint64_t pool[4096];
static size_t npool;

static void
pool_fill(struct program f)
{
	npool = 0;
	for (size_t i = 0; i < f.n; i++)
		if (f.p[i].code != (BPF_LD | BPF_W | BPF_ABS) &&
		    BPF_CLASS(f.p[i].code) != BPF_RET && BPF_OP(f.p[i].code) != BPF_JGE)
			pool[npool++] = f.p[i].k;
	for (unsigned i = 0; i < 64; i++) {
		pool[npool++] = (uint64_t)1 << i;
		pool[npool++] = i;
	}
	pool[npool++] = UINT64_MAX;
	pool[npool++] = UINT32_MAX;
}

/* Around what the pool holds: itself, a neighbour, two together, with high bits, anything. */
static uint64_t
argument(void)
{
	uint64_t r = any(), v = pool[r % npool];

	switch (r >> 32 & 15) {
	case 0: return v + 1;
	case 1: return v - 1;
	case 2: return v | pool[any() % npool];
	case 3: return v | any() << 32;
	case 4: return v ^ (uint64_t)1 << (any() & 63);
	case 5: return any();
	default: return v;
	}
}

/* By the table, so that a program that has lost a check is still asked much. */
static bool
is_conditional(const char *name)
{
	static const __u64 zero[6];
	int first = table_says(name, zero).error;
	__u64 a[6];

	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned k = 0; k < 6; k++)
			a[k] = argument();
		if (table_says(name, a).error != first)
			return true;
	}
	return false;
}

static void
number_compare(const struct machine *m, int nr)
{
	const char *name = name_of(m, (size_t)nr);
	struct seccomp_data d = {.nr = nr, .arch = m->arch};
	unsigned rounds = is_conditional(name) ? ROUNDS_CONDITIONAL : ROUNDS_PLAIN;

	for (unsigned i = 0; i < rounds; i++) {
		struct saying want;
		uint32_t error;

		for (unsigned k = 0; k < 6; k++)
			d.args[k] = argument();
		want = table_says(name, d.args);
		error =
		    want.error == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)want.error;
		if (bpf_run(m->errors, &d) != error ||
		    bpf_run(m->notify, &d) != (want.told ? SECCOMP_RET_USER_NOTIF : error))
			fail_msg("%s: %s(%llx, %llx, %llx): %x and %x, the table says %x", m->name,
			    name, d.args[0], d.args[1], d.args[2], bpf_run(m->errors, &d),
			    bpf_run(m->notify, &d), error);
	}
}

static void
every_number_is_answered_as_the_table_says(void **state UNUSED)
{
	for (EACH_MACHINE(m)) {
		longest = 0;
		pool_fill(m->errors);
		for (int nr = 0; nr < 1024; nr++)
			number_compare(m, nr);
		print_message("# %s: at most %zu instructions a call\n", m->name, longest);
	}
}

static void
words_of_other_machines_kill(void **state UNUSED)
{
	static const uint32_t other[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0,
	    UINT32_MAX, AUDIT_ARCH_X86_64 ^ 1, AUDIT_ARCH_AARCH64 ^ 1};

	for (EACH_MACHINE(m))
		for (uint32_t nr = 0; nr < 2000; nr++) {
			struct seccomp_data d = {.nr = (int)nr};

			for (size_t i = 0; i < ARRAY_LEN(other); i++) {
				d.arch = other[i];
				assert_int_equal(bpf_run(m->errors, &d), SECCOMP_RET_KILL_PROCESS);
				assert_int_equal(bpf_run(m->notify, &d), SECCOMP_RET_KILL_PROCESS);
			}
			d.arch = machines[m == machines ? 1 : 0].arch;
			assert_int_equal(bpf_run(m->errors, &d), SECCOMP_RET_KILL_PROCESS);
		}
}

static void
numbers_of_x32_kill_and_unknown_ones_do_not_exist(void **state UNUSED)
{
	static const uint32_t above[] = {1024, 5000, 0x3fffffff, 0x40000000, 0x40000001, 0x40000209,
	    0x7fffffff, 0x80000000, 0xc0000027, 0xfffffffe, 0xffffffff};

	for (EACH_MACHINE(m)) {
		bool x32 = m->arch == AUDIT_ARCH_X86_64;

		for (size_t i = 0; i < ARRAY_LEN(above) + 1024; i++) {
			uint32_t nr =
			    i < ARRAY_LEN(above) ? above[i] : 0x40000000 + (uint32_t)i - 11;
			struct seccomp_data d = {.nr = (int)nr, .arch = m->arch};
			bool kill = x32 && nr >= 0x40000000 && nr != UINT32_MAX;

			assert_int_equal(bpf_run(m->errors, &d),
			    kill ? SECCOMP_RET_KILL_PROCESS : ENOSYS_ANSWER);
			assert_int_equal(bpf_run(m->notify, &d),
			    kill ? SECCOMP_RET_KILL_PROCESS : ENOSYS_ANSWER);
		}
	}
}

/* --- the form for OCI, as crun and runc hand it to libseccomp --------------------------------- */

static unsigned
number_in(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	assert_true(cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= UINT32_MAX);
	return (unsigned)v->valuedouble;
}

static unsigned
comparisons(const cJSON *entry, struct scmp_arg_cmp *ret)
{
	const cJSON *a, *args = cJSON_GetObjectItemCaseSensitive(entry, "args");
	unsigned n = 0;

	cJSON_ArrayForEach(a, args)
	{
		bool masked = cJSON_HasObjectItem(a, "valueTwo");

		ret[n++] = (struct scmp_arg_cmp){.arg = number_in(a, "index"),
		    .op = masked ? SCMP_CMP_MASKED_EQ : SCMP_CMP_EQ,
		    .datum_a = number_in(a, "value"),
		    .datum_b = masked ? number_in(a, "valueTwo") : 0};
	}
	return n;
}

static scmp_filter_ctx
oci_build(const struct machine *m)
{
	cJSON *top = cJSON_Parse(m->oci);
	scmp_filter_ctx ctx =
	    seccomp_init(SCMP_ACT_ERRNO((uint16_t)number_in(top, "defaultErrnoRet")));
	const cJSON *entry, *name;

	assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), 0);
	(void)seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE);
	assert_int_equal(seccomp_arch_add(ctx, m->library), 0);
	cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(top, "syscalls"))
	{
		const char *what = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "action"));
		uint32_t action = strcmp(what, "SCMP_ACT_ALLOW") == 0
				      ? SCMP_ACT_ALLOW
				      : SCMP_ACT_ERRNO((uint16_t)number_in(entry, "errnoRet"));
		struct scmp_arg_cmp args[6];
		unsigned n = comparisons(entry, args);

		cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(entry, "names"))
		{
			const char *z = cJSON_GetStringValue(name);
			int nr = seccomp_syscall_resolve_name_arch(m->library, z);

			/* What the library is too old for stays ENOSYS; else the name is right. */
			if (nr == __NR_SCMP_ERROR)
				continue;
			nr = seccomp_syscall_resolve_name(z); /* it wants the host's */
			assert_int_equal(seccomp_rule_add_array(ctx, action, nr, n, args), 0);
		}
	}
	cJSON_Delete(top);
	return ctx;
}

static struct program export(scmp_filter_ctx ctx)
{
	static struct sock_filter text[1 << 16];
	AUTO_FD int fd = memfd_create("filter", MFD_CLOEXEC);
	ssize_t n;

	assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
	n = pread(fd, text, sizeof(text), 0);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	return (struct program){text, (size_t)n / sizeof(text[0])};
}

static void
oci_compare(const struct machine *m, struct program f, int nr)
{
	struct seccomp_data d = {.nr = nr, .arch = m->arch};
	const char *name = name_of(m, (size_t)nr);
	unsigned rounds = is_conditional(name) ? ROUNDS_CONDITIONAL / 10 : ROUNDS_PLAIN;
	AUTO_FREE char *known = seccomp_syscall_resolve_num_arch(m->library, nr);

	for (unsigned i = 0; i < rounds; i++) {
		struct saying want;
		bool unconditional = rounds == ROUNDS_PLAIN;
		uint32_t got, error;

		for (unsigned k = 0; k < 6; k++)
			d.args[k] = argument();
		want = known != NULL ? table_says(name, d.args) : (struct saying){false, ENOSYS};
		got = bpf_run(f, &d);
		error = SECCOMP_RET_ERRNO | (uint32_t)(unconditional ? want.error : ENOSYS);
		if (got != (want.error == 0 ? SECCOMP_RET_ALLOW : error))
			fail_msg("%s: %s(%llx, %llx, %llx) is %x for OCI, the table says %d",
			    m->name, name, d.args[0], d.args[1], d.args[2], got, want.error);
	}
}

static void
libseccomp_makes_of_the_oci_form_what_the_table_says(void **state UNUSED)
{
	for (EACH_MACHINE(m)) {
		scmp_filter_ctx ctx = oci_build(m);
		struct program f = export(ctx);

		seccomp_release(ctx);
		pool_fill(m->errors);
		print_message("# %s: %zu instructions from the OCI form\n", m->name, f.n);
		assert_true(f.n <= BPF_MAXINSNS);
		for (int nr = 0; nr < 1024; nr++)
			oci_compare(m, f, nr);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_program_is_one_that_the_kernel_would_load),
	    cmocka_unit_test(names_are_those_of_the_library_and_of_the_headers),
	    cmocka_unit_test(every_number_is_answered_as_the_table_says),
	    cmocka_unit_test(words_of_other_machines_kill),
	    cmocka_unit_test(numbers_of_x32_kill_and_unknown_ones_do_not_exist),
	    cmocka_unit_test(libseccomp_makes_of_the_oci_form_what_the_table_says),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
