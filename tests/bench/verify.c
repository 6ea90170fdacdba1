/*
 * Verification of a log beside a bare loop that hashes the same records: what the canonical check,
 * the envelope, the chain, the tree and the checkpoints cost; and one that goes on at the last
 *head, which hashes and does not parse. All by processor time of one core, one after the other over
 *the same files. Prints records a second and the ratios to the bare loop.
 *
 *	bench_verify DIR [RECORDS]
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/verify.h"
#include "audit/writer_store.h"
#include "common/log.h"

#include "common/banned.h"

#define BATCH 512
#define ROUNDS 3 /* the best counts: others use the machine */

/* As of a statement that was judged, shortened where members repeat. */
#define ACTION                                                                                   \
	"{\"action\":\"a-%012" PRIu64 "\",\"decision\":{\"at\":\"2026-11-30T07:00:00.000000Z\"," \
	"\"clock\":\"kernel-sync\",\"clock_known\":true,\"engine\":\"cofferdam-policy/1\","      \
	"\"grants\":[],\"policy\":\"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff46" \
	"04328\",\"reason\":\"permitted by read-anywhere\",\"rules\":[\"read-anywhere\"],"       \
	"\"slots\":[],\"verdict\":\"allow\"},\"dispatch\":{\"credential\":\"orders-agent\","     \
	"\"sent\":\"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77\"},"        \
	"\"request\":{\"conn\":3,\"effects\":[\"read\"],\"kind\":\"select\",\"operation\":"      \
	"\"query\",\"protocol\":\"postgres\",\"target\":\"orders-db\",\"txn\":\"idle\"}}"

static double
cpu_seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
write_log(int dir, uint64_t records, struct vkeys *keys)
{
	AUTO(secret) struct secret *seed = secret_new(32);
	AUTO_BUF struct buf data = BUF(4096);
	struct store_opts o = {.boot = "bench", .software = "bench"};
	struct signer *signer;
	struct store *s;
	struct err err = {0};
	uint8_t pub[32], sk[64];
	uint64_t seq;

	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	keys->n = 1;
	if (vkey_make(STR("bench"), pub, &keys->key[0], &err) != 0 ||
	    signer_new(seed, &keys->key[0], &signer, &err) != 0 ||
	    store_open(dir, signer, &o, &s, &err) != 0)
		fatal_err(&err);
	for (uint64_t i = 1; i <= records; i++) {
		buf_reset(&data);
		buf_printf(&data, ACTION, i);
		if (store_append(s, "action", STR("broker"), STR("r-1"), buf_str(&data), &seq, NULL,
			&err) != 0 ||
		    (i % BATCH == 0 && store_commit(s, &err) != 0) ||
		    (store_unsigned(s) >= 1000 && store_checkpoint(s, &err) != 0))
			fatal_err(&err);
	}
	if (store_close(s, &err) != 0)
		fatal_err(&err);
	store_free(s);
	signer_free(signer);
}

/* Hashes the BODY of each line of a segment; returns how many. */
static uint64_t
hash_segment(int dir, uint64_t number, uint8_t *all)
{
	AUTO_FD int seg = -1, fd = -1;
	char name[LOG_NAME_SIZE];
	struct err err = {0};
	uint64_t lines = 0;
	struct stat st;
	struct str left, line;
	void *p;

	log_name(name, number, LOG_LINES);
	if (log_open_dir(dir, LOG_SEG, &seg, &err) != 0 ||
	    log_open_file(seg, name, O_RDONLY, &fd, &err) != 0)
		fatal_err(&err);
	if (fstat(fd, &st) != 0 ||
	    (p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		fatal("cannot map %s", name);
	left = str_mem(p, (size_t)st.st_size);
	for (; str_cut(&left, '\n', &line); lines++) {
		struct hash h = record_leaf(str_mem(
		    line.p + RECORD_PREFIX_LEN, line.n - RECORD_PREFIX_LEN - RECORD_SUFFIX_LEN));

		*all ^= h.b[0]; /* so that none is left out */
	}
	(void)munmap(p, (size_t)st.st_size);
	return lines;
}

static double
bare(int dir)
{
	AUTO_LOG_FILES struct log_files files = {0};
	double began = cpu_seconds();
	struct err err = {0};
	uint64_t lines = 0;
	uint8_t all = 0;

	if (log_files_list(dir, LOG_SEG, LOG_LINES, LOG_LEAVES, &files, &err) != 0)
		fatal_err(&err);
	for (size_t i = 0; i < files.n[0]; i++)
		lines += hash_segment(dir, files.number[0][i], &all);
	return (double)lines / (cpu_seconds() - began) + (all == 0 ? 1e-9 : 0);
}

/* From the beginning, or on from a head; *ret (may be that one) is the one that it came to. */
static double
verify(int dir, const struct vkeys *keys, const struct pin *from, struct pin *ret)
{
	const struct verify_ask ask = {.resume = from};
	double began = cpu_seconds();
	struct err err = {0};
	struct verdict v;

	if (verify_log_asked(dir, keys, &ask, &v, &err) != 0)
		fatal_err(&err);
	if (verdict_status(&v) != 0 || (from != NULL && v.resumed != v.size))
		fatal("the log does not verify");
	*ret = (struct pin){.cp = {.size = v.verified, .root = v.root}, .name = "head"};
	return (double)v.size / (cpu_seconds() - began);
}

int
main(int argc, char **argv)
{
	uint64_t records = 200000;
	double best[3] = {0, 0, 0};
	struct pin head;
	struct vkeys keys = {0};
	int dir;

	if (argc < 2 || (argc > 2 && !str_to_u64(str_z(argv[2]), UINT32_MAX, &records)) ||
	    (mkdir(argv[1], 0700) != 0 && access(argv[1], W_OK) != 0) ||
	    (dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		fatal("usage: bench_verify DIR [RECORDS]");
	write_log(dir, records, &keys);
	for (int i = 0; i < ROUNDS; i++) {
		double b = bare(dir), v = verify(dir, &keys, NULL, &head),
		       g = verify(dir, &keys, &head, &head);

		best[0] = b > best[0] ? b : best[0];
		best[1] = v > best[1] ? v : best[1];
		best[2] = g > best[2] ? g : best[2];
	}
	(void)printf("%14s %14s %14s %7s %7s\n", "verify /s", "on from end /s", "bare hash /s",
	    "ratio", "on");
	(void)printf("%14.0f %14.0f %14.0f %7.2f %7.2f\n", best[1], best[2], best[0],
	    best[1] / best[0], best[2] / best[0]);
	(void)close(dir);
	return 0;
}
