/*
 * filter_gen: a program of the build. Reads filter.tbl (compiled in) and writes filter_bpf.h to
 * standard output: for each machine its BPF programs, names of calls and OCI's form. libseccomp
 * only tells it numbers. A word that no machine knows ends the build: a misspelt refusal would
 * else be none.
 */
#include "agent/sandbox/gen/gen.h"

#include <linux/audit.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

#define OUT_MAX ((size_t)1 << 22)

static const struct number {
	const char *name;
	int x86_64, aarch64;
} numbers[] = {
#define ALLOW(names)
#define REFUSE(how, e, names)
#define IF(how, e, names, ...)
#define NUMBER(name, x86_64, aarch64) {#name, x86_64, aarch64},
#include "agent/sandbox/filter.tbl"
};

static struct gen_machine machines[] = {
    {.name = "x86_64",
	.oci = "SCMP_ARCH_X86_64",
	.audit = AUDIT_ARCH_X86_64,
	.library = SCMP_ARCH_X86_64,
	.x32 = true},
    {.name = "aarch64",
	.oci = "SCMP_ARCH_AARCH64",
	.audit = AUDIT_ARCH_AARCH64,
	.library = SCMP_ARCH_AARCH64},
};

void
gen_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("filter.tbl: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* -1: not on this machine. */
static int
number_find(const struct gen_machine *m, const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(m->library, name);

	if (nr != __NR_SCMP_ERROR)
		return nr >= 0 ? nr : -1;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(numbers[i].name, name) == 0)
			return m->x32 ? numbers[i].x86_64 : numbers[i].aarch64;
	gen_die("no machine has a call %s: give its NUMBER", name);
}

static void
rule_apply(struct gen_machine *m, const struct gen_rule *r, const char *name)
{
	int nr = number_find(m, name);
	bool conditional = r->conds[0].nvalues != 0;
	struct gen_call *c;

	if (nr < 0)
		return;
	if (nr >= GEN_CALLS_MAX)
		gen_die("%s: number %d of %s is over %d", name, nr, m->name, GEN_CALLS_MAX - 1);
	c = &m->call[nr];
	c->name = name;
	if (conditional && !(c->listed && c->base.allow))
		gen_die("%s: conditions, but no ALLOW before them", name);
	if (!conditional && c->listed)
		gen_die("%s is listed twice", name);
	if (conditional) {
		c->rules |= (uint64_t)1 << (m->nrules - 1);
		return;
	}
	c->listed = true;
	c->base = r->answer;
}

/* Names live as long as the program: of what is not in the table, the library's are kept. */
static void
machine_build(struct gen_machine *m)
{
	static char words[2 * 64 * 1024];
	static size_t used;

	for (size_t nr = 0; nr < GEN_CALLS_MAX; nr++)
		m->call[nr].base = (struct gen_answer){.error = 38 /* ENOSYS */};
	for (size_t i = 0; i < gen_nrules; i++) {
		struct str rest = str_z(gen_rules[i].calls), word;

		if (gen_rules[i].conds[0].nvalues != 0) {
			if (m->nrules == GEN_RULES_MAX)
				gen_die("more than %d lines with conditions", GEN_RULES_MAX);
			m->rule[m->nrules++] = &gen_rules[i];
		}
		while (rest.n != 0) {
			if (!str_cut(&rest, ' ', &word)) {
				word = rest;
				rest.n = 0;
			}
			if (word.n == 0 || used + word.n + 1 > sizeof(words))
				gen_die("line %zu: an empty word, or too many", i);
			memcpy(words + used, word.p, word.n);
			words[used + word.n] = '\0';
			rule_apply(m, &gen_rules[i], words + used);
			used += word.n + 1;
		}
	}
}

static void
program_write(const struct gen_machine *m, bool notify, struct buf *out)
{
	const struct sock_filter *p;
	size_t n = gen_bpf(m, notify, &p);

	buf_printf(out, "static const struct sock_filter filter_%s_%s[%zu] = {\n", m->name,
	    notify ? "notify" : "errors", n);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "\t{0x%02x, %u, %u, 0x%x},\n", (unsigned)p[i].code,
		    (unsigned)p[i].jt, (unsigned)p[i].jf, p[i].k);
	buf_put_z(out, "};\n");
}

/* All names by number, each with its NUL; an unknown number's is empty. */
static void
names_write(const struct gen_machine *m, struct buf *out)
{
	unsigned n = 0, allowed = 0;
	size_t end = 0;

	buf_printf(out, "static const char filter_%s_names[] =", m->name);
	for (int nr = 0; nr < GEN_CALLS_MAX; nr++) {
		AUTO_FREE char *known = seccomp_syscall_resolve_num_arch(m->library, nr);
		const char *name = m->call[nr].name != NULL ? m->call[nr].name : known;

		if (nr % 8 == 0)
			buf_put_z(out, "\n\t");
		buf_printf(out, "\"%s\\0\"", name != NULL ? name : "");
		if (name != NULL)
			end = out->n;
		if (name != NULL)
			n = (unsigned)nr + 1;
		if (m->call[nr].listed && m->call[nr].base.allow)
			allowed++;
	}
	out->n = end;
	buf_printf(out, ";\n#define FILTER_%s_NAMES %u\n#define FILTER_%s_ALLOWED %u\n", m->name, n,
	    m->name, allowed);
}

static void
oci_write(const struct gen_machine *m, struct buf *out)
{
	AUTO_BUF struct buf json = BUF(OUT_MAX);

	gen_oci(m, &json);
	buf_printf(out, "static const char filter_%s_oci[] =\n\t\"", m->name);
	for (size_t i = 0; i < json.n; i++) {
		if (json.p[i] == '"')
			buf_put_c(out, '\\');
		buf_put_c(out, (char)json.p[i]);
		if (i % 80 == 79)
			buf_put_z(out, "\"\n\t\"");
	}
	buf_put_z(out, "\";\n");
}

int
main(void)
{
	AUTO_BUF struct buf out = BUF(OUT_MAX);

	buf_put_z(&out, "/* Made by filter_gen from agent/sandbox/filter.tbl. */\n"
			"#include <linux/filter.h>\n");
	for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
		struct gen_machine *m = &machines[i];

		machine_build(m);
		buf_printf(&out, "#if defined(__%s__) || defined(FILTER_ALL)\n", m->name);
		program_write(m, false, &out);
		program_write(m, true, &out);
		names_write(m, &out);
		oci_write(m, &out);
		buf_put_z(&out, "#endif\n");
	}
	if (buf_over(&out) || fwrite(out.p, out.n, 1, stdout) != 1 || fflush(stdout) != 0)
		gen_die("cannot write %zu bytes", out.n);
	return 0;
}
