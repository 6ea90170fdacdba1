/*
 * For t_sig*.c: a scratch directory, ssh-keygen run in it, and the armor of SSHSIG.
 */
#ifndef TESTS_UNIT_SSHKEYGEN_H
#define TESTS_UNIT_SSHKEYGEN_H

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sodium.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/sig.h"

#define NS "cofferdam-approval"

static char dir[64];

static inline struct str
msg(void)
{
	return STR("cofferdam approval\nDROP TABLE orders\n");
}

/* Runs a command in the scratch directory, input from `in` if not NULL; its exit status. */
static inline int
run(const char *in, const char *const *argv)
{
	posix_spawn_file_actions_t fa;
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn_file_actions_init(&fa), 0);
	assert_int_equal(posix_spawn_file_actions_addchdir_np(&fa, dir), 0);
	(void)posix_spawn_file_actions_addopen(&fa, 0, in != NULL ? in : "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&fa, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	(void)posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	assert_int_equal(
	    posix_spawnp(&pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&fa);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#define RUN(in, ...) run(in, (const char *const[]){__VA_ARGS__, NULL})

static inline FILE *
scratch(const char *name, const char *mode)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, mode);
	if (f == NULL)
		fail_msg("%s", path);
	return f;
}

static inline void
spill(const char *name, struct str s)
{
	FILE *f = scratch(name, "we");

	assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
	assert_int_equal(fclose(f), 0);
}

/* Caller frees. */
static inline char *
slurp(const char *name)
{
	FILE *f = scratch(name, "re");
	char *p = calloc(1, 8192);

	assert_non_null(p);
	assert_true(fread(p, 1, 8191, f) > 0);
	(void)fclose(f);
	return p;
}

static inline void
scratch_open(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(dir, sizeof(dir), "%.40s/t_sig.XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	spill("msg", msg());
	assert_int_equal(sodium_init() < 0, 0);
}

static inline int
scratch_drop(void **state UNUSED)
{
	return RUN(NULL, "rm", "-rf", "--", dir);
}

/* The armor around a blob, as ssh-keygen writes it. */
static inline void
put_armor(struct buf *out, const struct buf *blob)
{
	AUTO_BUF struct buf b64 = BUF(8000);

	enc_base64(&b64, buf_str(blob));
	buf_put_z(out, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t k = 0; k < b64.n; k += 70)
		buf_printf(out, "%.*s\n", (int)(b64.n - k < 70 ? b64.n - k : 70), b64.p + k);
	buf_put_z(out, "-----END SSH SIGNATURE-----\n");
	assert_false(buf_over(out));
}

/* The blob within an armor. */
static inline void
take_armor(struct str s, struct buf *blob)
{
	AUTO_BUF struct buf b64 = BUF(8000);
	struct str line;

	while (str_cut(&s, '\n', &line))
		if (!str_has_prefix(line, "-"))
			buf_put_str(&b64, line);
	assert_true(enc_unbase64(buf_str(&b64), blob));
}

static inline void
assert_refused(struct str armored, const char *ns, struct str m, const char *says)
{
	struct sig_sshsig g = {.flags = 77};
	struct err e = {0};

	assert_int_equal(sig_sshsig_verify(armored, ns, m, &g, &e), ERR_SIGNATURE);
	if (strcmp(e.msg, says) != 0)
		fail_msg("\"%s\", wanted \"%s\"", e.msg, says);
	assert_int_equal(g.flags, 77);
}

static inline void
assert_accepted(struct str armored, struct sig_sshsig *ret)
{
	struct err e = {0};

	if (sig_sshsig_verify(armored, NS, msg(), ret, &e) != 0)
		fail_msg("%s", e.msg);
}

#endif
