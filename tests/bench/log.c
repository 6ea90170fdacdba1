/*
 * Appends through the writer's store beside a bare group-commit loop of the same bytes: what the
 * chain, the tree, the canonical check and the signatures cost. Prints both and the ratio.
 *
 *	bench_log DIR [RECORDS] [BATCH...]
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

#include "common/banned.h"

#define DATA_LEN 700 /* of a middling action record */

static char data[DATA_LEN + 1];

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

/* Records a second, with a checkpoint each 1000 records. */
static double
through_store(int dir, uint64_t records, uint64_t batch)
{
	AUTO(secret) struct secret *seed = secret_new(32);
	struct store_opts o = {.boot = "bench", .software = "bench"};
	struct signer *signer;
	struct store *s;
	struct vkey vkey;
	struct err err = {0};
	uint8_t pub[32], sk[64];
	uint64_t seq, began, us;

	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	if (vkey_make(STR("bench"), pub, &vkey, &err) != 0 ||
	    signer_new(seed, &vkey, &signer, &err) != 0 ||
	    store_open(dir, signer, &o, &s, &err) != 0)
		fatal_err(&err);
	began = clock_boot_us();
	for (uint64_t i = 1; i <= records; i++) {
		if (store_append(s, "action", STR("broker"), STR("r-1"), str_mem(data, DATA_LEN),
			&seq, NULL, &err) != 0 ||
		    (i % batch == 0 && store_commit(s, &err) != 0) ||
		    (store_unsigned(s) >= 1000 && store_checkpoint(s, &err) != 0))
			fatal_err(&err);
	}
	if (store_commit(s, &err) != 0)
		fatal_err(&err);
	us = clock_boot_us() - began;
	store_free(s);
	signer_free(signer);
	return (double)records * 1e6 / (double)us;
}

static double
bare(int dir, uint64_t records, uint64_t batch)
{
	AUTO_FD int fd = openat(dir, "bare", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t line = DATA_LEN + 270; /* the envelope beside it */
	AUTO_BUF struct buf b = BUF(line * batch);
	uint64_t began = clock_boot_us(), us;
	off_t off = 0;

	memset(buf_grow(&b, line * batch), 'x', line * batch);
	for (uint64_t i = 0; i < records; i += batch) {
		if (pwrite(fd, b.p, b.n, off) != (ssize_t)b.n || fdatasync(fd) != 0)
			fatal("bare: %s", strerror(errno));
		off += (off_t)b.n;
	}
	us = clock_boot_us() - began;
	return (double)records * 1e6 / (double)us;
}

int
main(int argc, char **argv)
{
	static const uint64_t batches[] = {1, 8, 64, 512};
	uint64_t records = 100000;

	if (argc < 2 || (argc > 2 && !str_to_u64(str_z(argv[2]), UINT32_MAX, &records)))
		fatal("usage: bench_log DIR [RECORDS]");
	memset(data, 'x', DATA_LEN);
	memcpy(data, "{\"x\":\"", 6);
	memcpy(data + DATA_LEN - 2, "\"}", 2);
	(void)printf("%8s %14s %14s %7s\n", "batch", "log /s", "bare /s", "ratio");
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		uint64_t n = batches[i] == 1   ? records / 50
			     : batches[i] == 8 ? records / 10
					       : records;
		char name[32];
		AUTO_FD int dir = -1;
		double a, b;

		(void)snprintf(name, sizeof(name), "log-%" PRIu64, batches[i]);
		dir = make_dir(argv[1], name);
		b = bare(dir, n, batches[i]);
		a = through_store(dir, n, batches[i]);
		(void)printf("%8" PRIu64 " %14.0f %14.0f %7.2f\n", batches[i], a, b, a / b);
	}
	return 0;
}
