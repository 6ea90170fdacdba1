/*
 * Test driver: one damage after the other to each file of a log, and what the verifier says of
 * each. Verifies in this process, so that all bits of whole segments take seconds. Run by
 * tests/system/30-log-damage.t, on a copy that nothing else uses.
 *
 *	damage_log LOGDIR KEYFILE OP [CHECKPOINT...]
 *
 * OP: flip (each bit), zero, remove, insert (each byte), cut (at each byte), sector (512 zeros).
 * Prints for each file `FILE TRIED VERIFIED TAMPER CONFIG UNSIGNED`, as often as each status, and
 * before it `FILE AT STATUS` for each damage that was called verified or unsigned. With checkpoints
 * of the log (up to 4), which were taken before, a run that goes on at each must say the same of
 * each damage as one from the beginning; at the end it prints how many did go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/handover.h"
#include "audit/segment.h"
#include "audit/verify.h"
#include "common/log.h"
#include "tests/fuzz/resume_same.h"

#include "common/banned.h"

#define FILE_MAX ((size_t)1 << 24)
#define SECTOR 512

static int logdir;
static struct vkeys keys;
static struct pin at[4];
static size_t nat;
static uint64_t went_on, began_anew;

struct damaged {
	const char *name;
	int fd;
	struct buf data; /* as it was */
	uint64_t tried, status[4];
};

static void
put(const struct damaged *d, size_t off, struct str bytes)
{
	if (pwrite(d->fd, bytes.p, bytes.n, (off_t)off) != (ssize_t)bytes.n)
		fatal("%s: %s", d->name, strerror(errno));
}

static void
resize(const struct damaged *d, size_t n)
{
	if (ftruncate(d->fd, (off_t)n) != 0)
		fatal("%s: %s", d->name, strerror(errno));
}

/* As `cofferdam log verify` ends. */
static unsigned
status(void)
{
	static struct verdict v;
	struct err err = {0};
	int r = verify_log(logdir, &keys, NULL, 0, &v, &err);

	if (r != 0)
		return r == ERR_TAMPER ? 1 : 2;
	return (unsigned)verdict_status(&v);
}

static void
go_on(const struct damaged *d, size_t place)
{
	for (size_t i = 0; i < nat; i++) {
		bool resumed;
		AUTO_FREE char *why = resume_differs(logdir, &keys, &at[i], &resumed);

		if (why != NULL)
			fatal("%s %zu: %s", d->name, place, why);
		went_on += resumed;
		began_anew += !resumed;
	}
}

static void
judge(struct damaged *d, size_t place)
{
	unsigned s = status();

	d->tried++;
	d->status[s]++;
	if (s == 0 || s == 3)
		(void)printf("%s %zu %u\n", d->name, place, s);
	go_on(d, place);
}

/* --- damages ------------------------------------------------------------------------------ */

static void
flip(struct damaged *d)
{
	for (size_t i = 0; i < d->data.n * 8; i++) {
		uint8_t c = (uint8_t)(d->data.p[i / 8] ^ 1u << i % 8);

		put(d, i / 8, str_mem(&c, 1));
		judge(d, i / 8);
		put(d, i / 8, str_mem(d->data.p + i / 8, 1));
	}
}

static void
zeros(struct damaged *d, size_t step)
{
	static const uint8_t none[SECTOR];

	for (size_t i = 0; i < d->data.n; i += step) {
		size_t n = d->data.n - i < step ? d->data.n - i : step;

		if (memcmp(d->data.p + i, none, n) == 0)
			continue;
		put(d, i, str_mem(none, n));
		judge(d, i);
		put(d, i, str_mem(d->data.p + i, n));
	}
}

static void
zero(struct damaged *d)
{
	zeros(d, 1);
}

static void
sector(struct damaged *d)
{
	zeros(d, SECTOR);
}

static void
remove_byte(struct damaged *d)
{
	for (size_t i = 0; i < d->data.n; i++) {
		put(d, i, str_mem(d->data.p + i + 1, d->data.n - i - 1));
		resize(d, d->data.n - 1);
		judge(d, i);
		put(d, i, str_mem(d->data.p + i, d->data.n - i));
	}
}

/* Also behind the last: what an unfinished write of a pack looks like. */
static void
insert(struct damaged *d)
{
	for (size_t i = 0; i <= d->data.n; i++) {
		put(d, i, STR("x"));
		put(d, i + 1, str_mem(d->data.p + i, d->data.n - i));
		judge(d, i);
		resize(d, d->data.n);
		put(d, i, str_mem(d->data.p + i, d->data.n - i));
	}
}

static void
cut(struct damaged *d)
{
	for (size_t i = d->data.n; i-- > 0;) {
		resize(d, i);
		judge(d, i);
	}
	put(d, 0, buf_str(&d->data));
}

static const struct {
	const char *name;
	void (*fn)(struct damaged *d);
} ops[] = {{"flip", flip}, {"zero", zero}, {"remove", remove_byte}, {"insert", insert},
    {"cut", cut}, {"sector", sector}};

/* --- files ---------------------------------------------------------------------------------- */

static void
one_file(const char *name, void (*fn)(struct damaged *d))
{
	struct damaged d = {.name = name, .data = BUF(FILE_MAX)};
	struct err err = {0};

	if (log_read_file(logdir, name, &d.data, &err) != 0 ||
	    fchmodat(logdir, name, 0600, 0) != 0 ||
	    log_open_file(logdir, name, O_RDWR, &d.fd, &err) != 0)
		fatal("%s: %s", name, err.msg);
	fn(&d);
	(void)printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", name,
	    d.tried, d.status[0], d.status[1], d.status[2], d.status[3]);
	(void)fflush(stdout);
	(void)close(d.fd);
	buf_free(&d.data);
}

static void
one_dir(const char *sub, const char *suffix0, const char *suffix1, void (*fn)(struct damaged *d))
{
	const char *suffix[] = {suffix0, suffix1};
	AUTO_LOG_FILES struct log_files f = {0};
	struct err err = {0};

	if (log_files_list(logdir, sub, suffix0, suffix1, &f, &err) != 0)
		fatal_err(&err);
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < f.n[k]; i++) {
			char name[LOG_NAME_SIZE], path[LOG_NAME_SIZE + 8];

			log_name(name, f.number[k][i], suffix[k]);
			(void)snprintf(path, sizeof(path), "%s/%s", sub, name);
			one_file(path, fn);
		}
	}
}

static void
read_keys(const char *path)
{
	AUTO_BUF struct buf text = BUF(1 << 16);
	struct err err = {0};

	if (log_read_file(AT_FDCWD, path, &text, &err) != 0 ||
	    vkeys_parse(buf_str(&text), path, &keys, &err) != 0)
		fatal_err(&err);
}

static void
read_checkpoint(const char *path)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	struct err err = {0};

	if (nat == ARRAY_LEN(at))
		fatal("%s: one checkpoint too many", path);
	at[nat].name = path;
	if (log_read_file(AT_FDCWD, path, &note, &err) != 0 ||
	    checkpoint_open(buf_str(&note), &keys, &at[nat++].cp, &key, &err) != 0)
		fatal_err(&err);
}

int
main(int argc, char **argv)
{
	void (*fn)(struct damaged * d) = NULL;

	for (size_t i = 0; argc >= 4 && i < ARRAY_LEN(ops); i++)
		if (strcmp(argv[3], ops[i].name) == 0)
			fn = ops[i].fn;
	if (fn == NULL || (logdir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		fatal("usage: damage_log LOGDIR KEYFILE flip|zero|remove|insert|cut|sector "
		      "[CHECKPOINT...]");
	read_keys(argv[2]);
	for (int i = 4; i < argc; i++)
		read_checkpoint(argv[i]);
	if (status() != 0)
		fatal("%s does not verify before any damage", argv[1]);
	one_dir(LOG_SEG, LOG_LINES, LOG_LEAVES, fn);
	one_dir(LOG_CP, "", NULL, fn);
	one_dir(LOG_BLOB, LOG_PACK, NULL, fn);
	if (faccessat(logdir, LOG_KEY, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		one_dir(LOG_KEY, "", NULL, fn);
	one_file(LOG_CHECKPOINT, fn);
	if (status() != 0)
		fatal("%s does not verify any more", argv[1]);
	if (nat != 0)
		(void)printf("%" PRIu64 " %" PRIu64 "\n", went_on, began_anew);
	return 0;
}
