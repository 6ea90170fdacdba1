/*
 * The witness' memory: DIR/key, DIR/vkey, and of each log DIR/log/SHA-256(origin)/{keys,head}.
 * Runs in cofferdam-witness. A head is durable before its cosignature leaves; one request is dealt
 * with from reading the old head to answering before the next begins, and one process alone holds
 * the directory, so no older head can be stored over a newer one. It must never sign what does not
 * extend the head that it stored.
 */
#include "audit/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/segment.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define KEYS_MAX ((size_t)16384)

/* --- start --------------------------------------------------------------------------- */

static int
read_key(struct witness *w, const struct cosigner *me, struct err *err)
{
	AUTO(secret) struct secret *seed = NULL;
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];
	AUTO_FD int fd = -1;
	struct stat st;
	int rc = log_open_file(w->dir, "key", O_RDONLY, &fd, err);

	if (rc != 0)
		return rc;
	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "key");
	if ((st.st_mode & 077) != 0)
		return err_set(
		    err, ERR_CONFIG, "key: mode is %04o, must be 0600", st.st_mode & 07777);
	rc = secret_read_fd(fd, crypto_sign_SEEDBYTES + 1, &seed, err);
	if (rc != 0)
		return err_wrap(err, "key");
	if (secret_str(seed).n != crypto_sign_SEEDBYTES)
		return err_set(err, ERR_CONFIG, "key: must be %u bytes, is %zu",
		    crypto_sign_SEEDBYTES, secret_str(seed).n);
	w->sk = secret_new(crypto_sign_SECRETKEYBYTES);
	if (crypto_sign_seed_keypair(
		pub, secret_bytes(w->sk), (const unsigned char *)secret_str(seed).p) != 0)
		fatal("libsodium: no key from the seed");
	if (memcmp(pub, me->pub, sizeof(pub)) != 0)
		return err_set(err, ERR_CONFIG, "key is not the one that vkey names");
	return 0;
}

int
witness_open(int dir, struct witness *ret, struct err *err)
{
	AUTO_BUF struct buf line = BUF(1024);
	struct witness w = {.dir = dir, .lock = -1};
	int rc = log_open_file(dir, "LOCK", O_RDWR, &w.lock, err);

	if (rc == 0 && flock(w.lock, LOCK_EX | LOCK_NB) != 0)
		rc = err_set(err, ERR_EXISTS, "another process serves this witness");
	if (rc == 0)
		rc = log_read_file(dir, "vkey", &line, err);
	if (rc == 0)
		rc = cosigner_parse(str_trim(buf_str(&line)), &w.me, err);
	if (rc == 0)
		rc = read_key(&w, &w.me, err);
	if (rc != 0) {
		witness_close(&w);
		return rc;
	}
	*ret = w;
	return 0;
}

void
witness_close(struct witness *w)
{
	secret_free(w->sk);
	cleanup_close_fd(&w->lock);
	*w = (struct witness){.dir = -1, .lock = -1};
}

/* --- one log ------------------------------------------------------------------------- */

static int
head_read(int dir, struct cosign_log *log, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	struct str text, sigs, line, rest;
	struct checkpoint cp;
	int rc = log_read_file(dir, "head", &note, err);

	if (rc != 0)
		return err_set(err, ERR_TAMPER, "head of %s cannot be read", log->origin);
	if (note.n == 0)
		return 0; /* known, and nothing was cosigned yet */
	if (!cosign_note_split(buf_str(&note), &text, &sigs))
		return err_set(err, ERR_TAMPER, "head of %s is not a note", log->origin);
	rest = text;
	for (int i = 0; i < 3; i++)
		(void)str_cut(&rest, '\n', &line);
	rc = checkpoint_parse_text(str_mem(text.p, text.n - rest.n), &cp, err);
	if (rc != 0 || strcmp(cp.origin, log->origin) != 0)
		return err_set(err, ERR_TAMPER, "head of %s is not one of its own", log->origin);
	log->size = cp.size;
	log->root = cp.root;
	return 0;
}

/* ERR_NOT_FOUND: nobody told this witness of that log. */
static int
log_read(const struct witness *w, struct str origin, struct cosign_log *ret, int *ret_dir,
    struct err *err)
{
	AUTO_BUF struct buf text = BUF(KEYS_MAX);
	struct hash id = hash_sha256(origin);
	AUTO_FD int logs = -1;
	AUTO_FD int dir = -1;
	char name[HASH_HEX_SIZE];
	int rc = log_open_dir(w->dir, "log", &logs, err);

	if (rc != 0)
		return rc;
	hash_hex(&id, name);
	if (faccessat(logs, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "a log of that origin is not known here");
	rc = log_open_dir(logs, name, &dir, err);
	if (rc == 0)
		rc = log_read_file(dir, "keys", &text, err);
	if (rc == 0)
		rc = vkeys_parse(buf_str(&text), "keys", &ret->keys, err);
	if (rc != 0)
		return err_set(err, ERR_TAMPER, "keys of log/%s cannot be read", name);
	(void)snprintf(ret->origin, sizeof(ret->origin), "%.*s", STR_ARG(origin));
	for (size_t i = 0; i < ret->keys.n; i++)
		if (strcmp(ret->keys.key[i].name, ret->origin) != 0)
			return err_set(err, ERR_CONFIG, "keys of %s hold one of %s", ret->origin,
			    ret->keys.key[i].name);
	rc = head_read(dir, ret, err);
	if (rc == 0)
		*ret_dir = TAKE_FD(dir);
	return rc;
}

int
witness_put_file(int dir, const char *name, struct str text, struct err *err)
{
	AUTO_FREE char *tmp = xasprintf(LOG_TMP "%s", name);
	AUTO_FD int fd = -1;
	size_t done = 0;

	(void)unlinkat(dir, tmp, 0);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	while (fd >= 0 && done < text.n) {
		ssize_t n = write(fd, text.p + done, text.n - done);

		if (n <= 0 && errno != EINTR)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	if (fd < 0 || done < text.n || fdatasync(fd) != 0 || renameat(dir, tmp, dir, name) != 0 ||
	    fsync(dir) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return 0;
}

/* --- requests ------------------------------------------------------------------------ */

/* What was cosigned, with the witness' own line alone: stored, then answered. */
static int
cosign(
    struct witness *w, int dir, struct str note, uint64_t now_s, struct buf *line, struct err *err)
{
	AUTO_BUF struct buf message = BUF(CHECKPOINT_MAX + 64), head = BUF(CHECKPOINT_MAX + 1024);
	uint8_t sig[crypto_sign_BYTES];
	struct str text, sigs;

	if (!cosign_note_split(note, &text, &sigs))
		return err_set(err, ERR_SYNTAX, "not a note");
	cosign_message(&message, now_s, text);
	if (crypto_sign_detached(sig, NULL, message.p, message.n, secret_bytes(w->sk)) != 0)
		fatal("libsodium: cannot sign");
	cosign_put_line(line, &w->me, now_s, sig);
	buf_put_str(&head, text);
	buf_put_c(&head, '\n');
	buf_put_str(&head, buf_str(line));
	return witness_put_file(dir, "head", buf_str(&head), err);
}

static unsigned
failed(const struct err *err, struct buf *out)
{
	log_error("%s", err->msg);
	buf_reset(out);
	buf_put_z(out, "this witness cannot answer now\n");
	return 500;
}

unsigned
witness_add(struct witness *w, struct str body, uint64_t now_s, struct buf *out,
    const char **ret_type, struct err *err)
{
	struct cosign_request rq;
	struct cosign_log log = {0};
	struct checkpoint cp;
	enum cosign_status status;
	AUTO_FD int dir = -1;
	struct str origin;
	enum cosign_evidence evidence;
	int rc;

	*ret_type = "text/plain; charset=utf-8";
	if (cosign_request_parse(body, &rq, err) != 0 || !cosign_origin(rq.note, &origin)) {
		buf_put_z(out, "not an add-checkpoint request\n");
		return COSIGN_MALFORMED;
	}
	rc = log_read(w, origin, &log, &dir, err);
	if (rc != 0 && rc != ERR_NOT_FOUND)
		return failed(err, out);
	status = rc == 0 ? cosign_judge(&log, &rq, &cp, &evidence, err) : COSIGN_UNKNOWN;
	if (status == COSIGN_OK)
		return cosign(w, dir, rq.note, now_s, out, err) == 0 ? COSIGN_OK : failed(err, out);
	if (rc == 0 && evidence != COSIGN_NOTHING)
		witness_keep(w, log.origin, dir, body, evidence, err->msg, now_s);
	if (status == COSIGN_CONFLICT) {
		*ret_type = "text/x.tlog.size";
		buf_printf(out, "%" PRIu64 "\n", log.size);
	} else {
		buf_printf(out, "%s\n", err->msg);
	}
	return status;
}
