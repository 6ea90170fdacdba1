/*
 * Test driver: appends records through the writer's store, without the broker around it.
 *
 *	tool_append-log DIR COUNT [name=value ...]
 *
 * DIR is made like a state directory (log/, keys/log/{seed,vkey}, keys/blob/r-1.key). Names: batch
 * (records per commit), cp (records per checkpoint, 0 none but at open), seg (segment size),
 * ballast, blob (0: none), close (0: end without log.close), seed (byte of the key's seed), size
 * (filler bytes), live (1: an order to prune is carried out a step after each commit, not first),
 * pace (microseconds between lines of a file), origin, from (a file of records to append first, one
 * a line: type, src, run or -, data, content, parted by tabs; "@" in data becomes the reference of
 * the sealed content, in which \\n is a line feed), lines (of it committed at once). Prints
 * `open SIZE` once open and `ack SIZE` after each commit.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/blob.h"
#include "audit/writer_prune.h"
#include "common/log.h"

#include "common/banned.h"

#define CHUNK ((size_t)1 << 20) /* read at once */

static struct {
	const char *name;
	uint64_t value;
} opts[] = {{"batch", 1}, {"cp", 10}, {"seg", 0}, {"ballast", 65536}, {"blob", 1}, {"close", 1},
    {"seed", 7}, {"size", 0}, {"lines", 4096}, {"live", 0}, {"pace", 0}};
static const char *origin = "broker.example/test", *from;

static uint64_t
opt(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(opts); i++)
		if (strcmp(opts[i].name, name) == 0)
			return opts[i].value;
	fatal("no option %s", name);
}

static void
opt_set(const char *arg)
{
	struct str value = str_z(arg), name;

	if (!str_cut(&value, '=', &name))
		fatal("%s: must be name=value", arg);
	if (str_eqz(name, "origin") || str_eqz(name, "from")) {
		*(str_eqz(name, "from") ? &from : &origin) = value.p;
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(opts); i++)
		if (str_eqz(name, opts[i].name) && str_to_u64(value, UINT64_MAX, &opts[i].value))
			return;
	fatal("%s: unknown option", arg);
}

/* One line to standard output, at once: the parent counts what it has seen before a kill. */
static void
say(const char *word, uint64_t n)
{
	char line[64];
	int k = snprintf(line, sizeof(line), "%s %" PRIu64 "\n", word, n);

	if (write(1, line, (size_t)k) != k)
		fatal("cannot write to standard output");
}

static void
put_file(int dir, const char *name, struct str bytes)
{
	AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, bytes.p, bytes.n) != (ssize_t)bytes.n)
		fatal("%s: %s", name, strerror(errno));
}

static void
make_dirs(int dir)
{
	static const char *const names[] = {"log", "keys", "keys/log", "keys/blob"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (mkdirat(dir, names[i], 0700) != 0 && errno != EEXIST)
			fatal("%s: %s", names[i], strerror(errno));
}

static struct signer *
make_signer(int dir)
{
	AUTO(secret) struct secret *seed = secret_new(32);
	AUTO_BUF struct buf line = BUF(1024);
	uint8_t pub[32], sk[64];
	struct signer *s;
	struct vkey vkey;
	struct err err = {0};

	memset(secret_bytes(seed), (int)opt("seed"), 32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	if (vkey_make(str_z(origin), pub, &vkey, &err) != 0 ||
	    signer_new(seed, &vkey, &s, &err) != 0)
		fatal_err(&err);
	vkey_put(&line, &vkey);
	buf_put_c(&line, '\n');
	put_file(dir, "keys/log/seed", secret_str(seed));
	put_file(dir, "keys/log/vkey", buf_str(&line));
	return s;
}

static void
put_data(struct jcs *j, uint64_t i, struct store *store, const struct secret *key)
{
	AUTO_BUF struct buf frame = BUF(8192), text = BUF(256), fill = BUF(65536);
	struct blob_ref ref;
	struct err err = {0};

	jcs_open(j, NULL);
	if (opt("blob") != 0 && i % 3 == 0) {
		buf_printf(&text, "step %" PRIu64 "\n\x1b[31mred\n", i);
		if (blob_seal(key, STR("r-1"), "text/plain", buf_str(&text), &frame, &ref, &err) !=
			0 ||
		    store_blob(store, buf_str(&frame), &err) != 0)
			fatal_err(&err);
		blob_ref_jcs(j, "content", &ref);
	}
	jcs_int(j, "n", (int64_t)i);
	if (opt("size") != 0) {
		memset(buf_grow(&fill, opt("size")), 'x', opt("size"));
		jcs_str(j, "x", buf_str(&fill));
	}
	jcs_close(j);
}

static void
append(struct store *store, uint64_t i, const struct secret *key)
{
	AUTO_BUF struct buf data = BUF(RECORD_BODY_MAX);
	struct err err = {0};
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	put_data(&j, i, store, key);
	if (store_append(store, i % 3 == 0 ? "agent.exec" : "agent.note", STR("agent"), STR("r-1"),
		buf_str(&data), &seq, NULL, &err) != 0)
		fatal_err(&err);
}

static void
commit(struct store *store, bool checkpoint)
{
	struct err err = {0};

	if (store_commit(store, &err) != 0 ||
	    (checkpoint && (store_checkpoint(store, &err) != 0 || store_publish(store, &err) != 0)))
		fatal_err(&err);
	say("ack", store_size(store));
}

static int
prune(struct prune *p, struct store *store)
{
	struct err err = {0};
	int r = prune_step(p, &err);

	if (r < 0 || (r == PRUNE_COMMIT &&
			 (store_commit(store, &err) != 0 || store_checkpoint(store, &err) != 0)))
		fatal_err(&err);
	return r;
}

/* data with "@" replaced by the reference of the sealed content. */
static void
put_reference(struct buf *out, struct str data, struct str run, struct str content,
    struct store *store, const struct secret *key)
{
	const char *at = memmem(data.p, data.n, "\"@\"", 3);
	AUTO_BUF struct buf text = BUF(1 << 20), frame = BUF(1 << 21);
	struct blob_ref ref;
	struct err err = {0};
	struct jcs j;

	if (at == NULL) {
		buf_put_str(out, data);
		return;
	}
	for (size_t i = 0; i < content.n; i++) {
		bool lf = content.p[i] == '\\' && i + 1 < content.n && content.p[i + 1] == 'n';

		buf_put_c(&text, lf ? '\n' : content.p[i]);
		i += lf;
	}
	if (blob_seal(key, str_eqz(run, "-") ? STR("policy") : run, "text/plain", buf_str(&text),
		&frame, &ref, &err) != 0 ||
	    store_blob(store, buf_str(&frame), &err) != 0)
		fatal_err(&err);
	buf_put(out, data.p, (size_t)(at - data.p));
	jcs_init(&j, out);
	blob_ref_jcs(&j, NULL, &ref);
	buf_put(out, at + 3, data.n - (size_t)(at - data.p) - 3);
}

static void
append_line(struct store *store, const struct secret *key, struct str line)
{
	AUTO_BUF struct buf b = BUF(RECORD_BODY_MAX);
	AUTO_FREE char *z = NULL;
	struct str type, src, run, data;
	struct err err = {0};
	uint64_t seq;

	if (!str_cut(&line, '\t', &type) || !str_cut(&line, '\t', &src) ||
	    !str_cut(&line, '\t', &run) || !str_cut(&line, '\t', &data))
		fatal("%s: a line has not five parts", from);
	put_reference(&b, data, run, line, store, key);
	z = str_dup(type);
	if (store_append(store, z, src, str_eqz(run, "-") ? STR("") : run, buf_str(&b), &seq, NULL,
		&err) != 0)
		fatal_err(&err);
	if (opt("pace") != 0)
		(void)usleep((useconds_t)opt("pace"));
}

/* A piece at a time: it may be a pipe with ten million lines. */
static void
append_file(struct store *store, const struct secret *key)
{
	AUTO_FD int fd = open(from, O_RDONLY | O_CLOEXEC);
	AUTO_BUF struct buf all = BUF(64 * CHUNK);
	uint64_t lines = 0;
	ssize_t n;

	do {
		struct str left, line;
		uint8_t *p = buf_grow(&all, CHUNK);

		n = fd < 0 || p == NULL ? -1 : read(fd, p, CHUNK);
		if (n < 0)
			fatal("%s: %s", from, strerror(errno));
		all.n -= CHUNK - (size_t)n;
		left = buf_str(&all);
		while (str_cut(&left, '\n', &line)) {
			append_line(store, key, line);
			if (++lines % opt("lines") == 0)
				commit(store, false);
		}
		buf_drop(&all, all.n - left.n);
	} while (n > 0);
	commit(store, true);
}

int
main(int argc, char **argv)
{
	AUTO(secret) struct secret *key = secret_new(BLOB_KEY_LEN);
	AUTO_FD int dir = -1, logdir = -1;
	struct store_opts o = {.boot = "test", .software = "append-log"};
	struct err err = {0};
	struct store *store;
	struct signer *signer;
	struct prune *pr;
	uint64_t count = 0;

	log_init("append-log", LOG_INFO_);
	if (argc < 3 || !str_to_u64(str_z(argv[2]), UINT64_MAX, &count))
		fatal("usage: append-log DIR COUNT [name=value ...]");
	for (int i = 3; i < argc; i++)
		opt_set(argv[i]);
	(void)mkdir(argv[1], 0700);
	dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		fatal("%s: %s", argv[1], strerror(errno));
	make_dirs(dir);
	put_file(dir, "keys/blob/r-1.key", secret_str(key)); /* zeros: a test key */
	signer = make_signer(dir);
	logdir = openat(dir, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	o.segment_max = opt("seg");
	o.ballast = opt("ballast");
	if (store_open(logdir, signer, &o, &store, &err) != 0)
		fatal_err(&err);
	pr = prune_new(store);
	while (opt("live") == 0 && prune(pr, store) != PRUNE_IDLE)
		;
	say("open", store_size(store));
	if (from != NULL)
		append_file(store, key);
	for (uint64_t i = 1; i <= count; i++) {
		append(store, i, key);
		if (i % opt("batch") == 0 || i == count)
			commit(store, opt("cp") != 0 && i % opt("cp") == 0);
		if (opt("live") != 0)
			(void)prune(pr, store);
	}
	prune_free(pr);
	if (opt("close") != 0 && store_close(store, &err) != 0)
		fatal_err(&err);
	store_free(store);
	signer_free(signer);
	return 0;
}
