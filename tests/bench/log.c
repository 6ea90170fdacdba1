/*
 * Appends through the writer's store beside a bare group-commit loop of the same bytes: what the
 * chain, the tree, the canonical check and the signatures cost. The two take turns, a slice of
 * records each, so that a busy disk slows both. A batch is what so many producers have waiting:
 * its time is the time that each of them waits. Prints both, the ratio, and the 99th percentile of
 * a batch beside that of one fdatasync of one line. Then: a start behind a crash in a log of
 * MIB MiB, and the same without what is kept for it.
 *
 *	bench_log DIR [RECORDS [MIB]]
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/writer_store.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "tests/bench/appends.h"

#include "common/banned.h"

static int
make_dir(const char *top, const char *name)
{
	AUTO_FREE char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/%s", top, name) < 0 || (mkdir(path, 0700) != 0 && errno != EEXIST))
		fatal("%s: %s", name, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fatal("%s: %s", path, strerror(errno));
	return fd;
}

struct bench {
	struct signer *signer;
	struct store *s;
	int bare;
	off_t off;
};

static struct signer *
make_signer(void)
{
	AUTO(secret) struct secret *seed = secret_new(32);
	struct signer *signer;
	struct vkey vkey;
	struct err err = {0};
	uint8_t pub[32], sk[64];

	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	if (vkey_make(STR("bench"), pub, &vkey, &err) != 0 ||
	    signer_new(seed, &vkey, &signer, &err) != 0)
		fatal_err(&err);
	return signer;
}

static void
open_log(struct bench *b, int dir)
{
	struct store_opts o = {.boot = "bench", .software = "bench"};
	struct err err = {0};

	b->signer = make_signer();
	if (store_open(dir, b->signer, &o, &b->s, &err) != 0)
		fatal_err(&err);
}

static void
close_log(struct bench *b)
{
	store_free(b->s);
	signer_free(b->signer);
}

/* A checkpoint when the writer makes one. */
static void
log_batch(struct bench *b, uint64_t batch)
{
	struct err err = {0};
	uint64_t seq;

	for (uint64_t i = 0; i < batch; i++)
		if (store_append(b->s, "action", STR("broker"), STR("r-1"), str_mem(data, DATA_LEN),
			&seq, NULL, &err) != 0)
			fatal_err(&err);
	if (store_commit(b->s, &err) != 0 ||
	    (store_sign_due(b->s) && store_checkpoint(b->s, &err) != 0))
		fatal_err(&err);
}

static void
bare(struct bench *b, uint64_t batch)
{
	bare_batch(b->bare, &b->off, batch);
}

static void
timed(struct times *t, struct bench *b, uint64_t batch, void (*fn)(struct bench *b, uint64_t batch))
{
	uint64_t began = clock_boot_us(), us;

	fn(b, batch);
	us = clock_boot_us() - began;
	t->us += us;
	times_add(t, us);
}

static void
bench_batch(int dir, uint64_t records, uint64_t batch)
{
	struct bench b = {
	    .bare = openat(dir, "bare", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
	uint64_t rounds = records / batch;
	struct times t[3] = {0};

	if (b.bare < 0)
		fatal("bare: %s", strerror(errno));
	open_log(&b, dir);
	for (uint64_t i = 0; i < rounds; i += SLICE) {
		for (uint64_t k = 0; k < SLICE; k++)
			timed(&t[0], &b, batch, log_batch);
		for (uint64_t k = 0; k < SLICE; k++)
			timed(&t[1], &b, batch, bare);
		for (uint64_t k = 0; k < SLICE; k++)
			timed(&t[2], &b, 1, bare);
	}
	(void)printf("%8" PRIu64 " %12.0f %12.0f %7.2f %11.2f %11.2f %11.2f\n", batch,
	    (double)(t[0].n * batch) * 1e6 / (double)t[0].us,
	    (double)(t[1].n * batch) * 1e6 / (double)t[1].us, (double)t[1].us / (double)t[0].us,
	    p99(&t[0]), p99(&t[1]), p99(&t[2]));
	for (size_t i = 0; i < 3; i++)
		free(t[i].each);
	close_log(&b);
	(void)close(b.bare);
}

/* --- a start ----------------------------------------------------------------------------- */

static double
start_s(int dir)
{
	uint64_t began = clock_boot_us();
	struct bench b;

	open_log(&b, dir);
	began = clock_boot_us() - began;
	close_log(&b); /* no log.close: as if it were killed */
	return (double)began / 1e6;
}

static void
bench_start(const char *top, uint64_t mib)
{
	AUTO_FD int dir = make_dir(top, "start");
	AUTO_FREE char *live = NULL, *away = NULL;
	struct bench b;
	double quick;

	open_log(&b, dir);
	for (uint64_t i = 0; i < (mib << 20) / LINE_LEN / 1024; i++)
		log_batch(&b, 1024);
	log_batch(&b, 512); /* not signed */
	close_log(&b);
	quick = start_s(dir);
	if (asprintf(&live, "%s/start/live", top) < 0 || asprintf(&away, "%s/live", top) < 0 ||
	    rename(live, away) != 0)
		fatal("live: %s", strerror(errno));
	(void)printf("start after a crash, log of %" PRIu64
		     " MiB: %.3f s; reading all of it: %.3f s\n",
	    mib, quick, start_s(dir));
}

int
main(int argc, char **argv)
{
	static const uint64_t batches[] = {1, 8, 64, 512};
	uint64_t records = 100000, mib = 1024;

	if (argc < 2 || (argc > 2 && !str_to_u64(str_z(argv[2]), UINT32_MAX, &records)) ||
	    (argc > 3 && !str_to_u64(str_z(argv[3]), 1 << 20, &mib)))
		fatal("usage: bench_log DIR [RECORDS [MIB]]");
	data_fill();
	(void)printf("%8s %12s %12s %7s %11s %11s %11s\n", "batch", "log /s", "bare /s", "ratio",
	    "log p99 ms", "bare p99", "1 sync p99");
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		uint64_t n = batches[i] == 1   ? records / 50
			     : batches[i] == 8 ? records / 10
					       : records;
		char name[32];
		AUTO_FD int dir = -1;

		(void)snprintf(name, sizeof(name), "log-%" PRIu64, batches[i]);
		dir = make_dir(argv[1], name);
		bench_batch(dir, n, batches[i]);
	}
	bench_start(argv[1], mib);
	return 0;
}
