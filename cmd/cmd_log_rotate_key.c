/*
 * `cofferdam log key list | rotate`. Runs as the operator, who can read the log's seed; rotate
 * holds the log's lock, so that no writer runs. The new key, and the note by which the old one
 * hands over, appear at once or not at all; the old seed is destroyed before the new key has signed
 * anything. A key that cannot be read is never replaced.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/handover.h"
#include "audit/segment.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/secret.h"

#include "common/banned.h"

#define OWN "keys/log"
#define NEXT "keys/log.next"

struct key_args {
	const char *state, *reason;
	uint64_t last; /* UINT64_MAX: not given */
};

struct rotate {
	struct cmd_place place;
	int lock, dirlock;
	struct secret *seed, *sk; /* of the key in use */
	struct handover h;
	struct buf first; /* what verifiers were given at the beginning */
};

#define AT(f) offsetof(struct key_args, f)

static const struct option_row rows[] = {
    {"--revoke", OPTION_TEXT, AT(reason), 0, 0, "REASON",
	"the old key is not to be believed beyond the log's size, or SIZE"},
    {"--last", OPTION_NUMBER, AT(last), 0, INT64_MAX, "SIZE",
	"the last size that you know from elsewhere, as by a pin"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

/* --- what is there ------------------------------------------------------------------------ */

static void
rotate_end(struct rotate *t)
{
	secret_free(t->seed);
	secret_free(t->sk);
	buf_free(&t->first);
	cleanup_close_fd(&t->lock);
	cleanup_close_fd(&t->dirlock);
	cmd_place_close(&t->place);
}

/* The same two locks that a writer takes. */
static int
lock(struct rotate *t, const struct key_args *a, struct err *err)
{
	int rc = cmd_place_open(a->state, NULL, &t->place, err);

	if (rc != 0)
		return rc;
	if (t->place.statedir < 0)
		return err_set(err, ERR_CONFIG, "rotate-key needs a state directory");
	if ((rc = log_open_file(t->place.logdir, LOG_LOCK, O_RDWR, &t->lock, err)) != 0 ||
	    (rc = log_open_dir(t->place.logdir, ".", &t->dirlock, err)) != 0)
		return rc == ERR_NOT_FOUND
			   ? err_set(err, ERR_STATE, "the log has not begun: nothing to hand over")
			   : rc;
	if (flock(t->lock, LOCK_EX | LOCK_NB) != 0 || flock(t->dirlock, LOCK_EX | LOCK_NB) != 0)
		return err_set(
		    err, ERR_STATE, "the broker runs: stop it first, then start it again");
	return 0;
}

static int
keypair(const struct secret *seed, uint8_t pub[32], struct secret **ret_sk, struct err *err)
{
	AUTO(secret) struct secret *sk = secret_new(crypto_sign_SECRETKEYBYTES);

	if (secret_str(seed).n != crypto_sign_SEEDBYTES ||
	    crypto_sign_seed_keypair(pub, secret_bytes(sk), (const uint8_t *)secret_str(seed).p) !=
		0)
		return err_set(err, ERR_CONFIG, OWN "/seed is not a seed of 32 bytes");
	*ret_sk = TAKE_PTR(sk);
	return 0;
}

static int
load_key(struct rotate *t, struct err *err)
{
	AUTO_BUF struct buf vkey = BUF(1024);
	AUTO_FD int fd = -1;
	uint8_t pub[32];
	int rc = log_open_file(t->place.statedir, OWN "/seed", O_RDONLY, &fd, err);

	if (rc == 0)
		rc = secret_read_fd(fd, crypto_sign_SEEDBYTES, &t->seed, err);
	if (rc == 0)
		rc = keypair(t->seed, pub, &t->sk, err);
	if (rc == 0)
		rc = log_read_file(t->place.statedir, OWN "/vkey", &vkey, err);
	if (rc == 0)
		rc = vkey_parse(str_trim(buf_str(&vkey)), &t->h.old, err);
	if (rc != 0)
		return err_wrap(err, OWN);
	if (memcmp(pub, t->h.old.pub, sizeof(pub)) != 0)
		return err_set(err, ERR_CONFIG, OWN "/seed is not the key of " OWN "/vkey");
	rc = log_read_file(t->place.statedir, OWN "/first", &t->first, err);
	if (rc == ERR_NOT_FOUND) {
		err_clear(err);
		buf_put_str(&t->first, buf_str(&vkey));
		rc = 0;
	}
	return rc;
}

/* The newest head: by the key in use, or this one has not taken over yet. */
static int
load_head(struct rotate *t, struct err *err)
{
	const struct vkeys keys = {.n = 1, .key = {t->h.old}};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	const struct vkey *key;
	char name[LOG_NAME_SIZE];
	int rc = log_files_list(t->place.logdir, LOG_CP, "", NULL, &files, err);

	if (rc != 0 || (rc = log_open_dir(t->place.logdir, LOG_CP, &dir, err)) != 0)
		return rc;
	if (files.n[0] == 0)
		return err_set(err, ERR_STATE, "the log has no checkpoint: nothing to hand over");
	log_name(name, files.number[0][files.n[0] - 1], "");
	if ((rc = log_read_file(dir, name, &note, err)) != 0)
		return rc;
	rc = checkpoint_open(buf_str(&note), &keys, &t->h.at, &key, err);
	if (rc == ERR_CONFIG)
		return err_set(err, ERR_STATE,
		    "cp/%s is not by the key in use: it has not taken over yet, start the broker "
		    "once",
		    name);
	return rc != 0 ? err_wrap(err, "cp/%s", name) : 0;
}

/* --- the change -------------------------------------------------------------------------- */

/* A directory that was not put in place, or was put out of it: its seed is overwritten. */
static int
destroy_next(int statedir, struct err *err)
{
	static const char *const names[] = {"seed", "vkey", "first", "handover"};
	static const uint8_t nothing[crypto_sign_SEEDBYTES];
	AUTO_FD int dir = openat(statedir, NEXT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	AUTO_FD int seed = -1;

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(err, ERR_SYSTEM, errno, NEXT);
	seed = openat(dir, "seed", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (seed < 0
		? errno != ENOENT
		: pwrite(seed, nothing, sizeof(nothing), 0) != sizeof(nothing) || fsync(seed) != 0)
		return err_sys(err, ERR_SYSTEM, errno, NEXT "/seed");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (unlinkat(dir, names[i], 0) != 0 && errno != ENOENT)
			return err_sys(err, ERR_SYSTEM, errno, NEXT "/%s", names[i]);
	if (fsync(dir) != 0 || unlinkat(statedir, NEXT, AT_REMOVEDIR) != 0)
		return err_sys(err, ERR_SYSTEM, errno, NEXT);
	return 0;
}

static void
sign(const struct buf *text, const struct vkey *k, struct secret *sk, struct buf *note)
{
	uint8_t sig[crypto_sign_BYTES];

	(void)crypto_sign_detached(sig, NULL, text->p, text->n, secret_bytes(sk));
	note_put_sig(note, k, sig);
}

static int
make_note(struct rotate *t, struct secret *sk, struct buf *note, struct err *err)
{
	AUTO_BUF struct buf text = BUF(HANDOVER_MAX);
	struct handover again;

	handover_text(&text, &t->h);
	buf_put_str(note, buf_str(&text));
	buf_put_c(note, '\n');
	sign(&text, &t->h.old, t->sk, note);
	sign(&text, &t->h.next, sk, note);
	return handover_open(buf_str(note), &again, err);
}

static int
make_next(struct rotate *t, struct err *err)
{
	AUTO(secret) struct secret *seed = secret_new(crypto_sign_SEEDBYTES);
	AUTO(secret) struct secret *sk = NULL;
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX), vkey = BUF(1024);
	AUTO_FD int dir = -1;
	uint8_t pub[32];
	int rc;

	rand_bytes(secret_bytes(seed), crypto_sign_SEEDBYTES);
	if ((rc = keypair(seed, pub, &sk, err)) != 0 ||
	    (rc = vkey_make(str_z(t->h.old.name), pub, &t->h.next, err)) != 0)
		return rc;
	t->h.next.first = t->h.at.size;
	vkey_put(&vkey, &t->h.next);
	buf_put_c(&vkey, '\n');
	if ((rc = make_note(t, sk, &note, err)) != 0)
		return rc;
	if (mkdirat(t->place.statedir, NEXT, 0700) != 0)
		return err_sys(err, ERR_SYSTEM, errno, NEXT);
	if ((rc = log_open_dir(t->place.statedir, NEXT, &dir, err)) != 0 ||
	    (rc = file_create(dir, "seed", secret_str(seed), 0600, err)) != 0 ||
	    (rc = file_create(dir, "vkey", buf_str(&vkey), 0600, err)) != 0 ||
	    (rc = file_create(dir, "first", buf_str(&t->first), 0600, err)) != 0 ||
	    (rc = file_create(dir, "handover", buf_str(&note), 0600, err)) != 0)
		return rc;
	return fsync(dir) != 0 ? err_sys(err, ERR_SYSTEM, errno, NEXT) : 0;
}

/* One exchange of two directories: before it the old key is whole, after it the new one is. */
static int
put_in_place(int statedir, struct err *err)
{
	AUTO_FD int keys = openat(statedir, "keys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (keys < 0 || fsync(keys) != 0 ||
	    renameat2(statedir, NEXT, statedir, OWN, RENAME_EXCHANGE) != 0 || fsync(keys) != 0)
		return err_sys(err, ERR_SYSTEM, errno, OWN);
	return destroy_next(statedir, err);
}

static int
rotate(const struct key_args *a, struct err *err)
{
	struct rotate t = {.place = {-1, -1}, .lock = -1, .dirlock = -1, .first = BUF(65536)};
	AUTO_BUF struct buf vkey = BUF(1024);
	struct str reason = str_z(a->reason);
	int rc = lock(&t, a, err);

	if (rc == 0)
		rc = destroy_next(t.place.statedir, err);
	if (rc == 0)
		rc = load_key(&t, err);
	if (rc == 0)
		rc = load_head(&t, err);
	if (rc == 0 && a->reason != NULL)
		rc = str_text_check("a reason", reason, 1, HANDOVER_REASON_MAX, err);
	t.h.old.last = a->last != UINT64_MAX ? a->last : t.h.at.size;
	if (rc == 0 && t.h.old.last > t.h.at.size)
		rc = err_set(err, ERR_INVALID,
		    "--last %" PRIu64 " is beyond the log's size %" PRIu64, a->last, t.h.at.size);
	if (rc == 0) {
		(void)snprintf(t.h.reason, sizeof(t.h.reason), "%.*s", STR_ARG(reason));
		rc = make_next(&t, err);
	}
	if (rc == 0)
		rc = put_in_place(t.place.statedir, err);
	if (rc == 0) {
		vkey_put(&vkey, &t.h.next);
		(void)printf("the old key signs sizes up to %" PRIu64 "%s, from %" PRIu64
			     " on it is this one, at the broker's next start:\n%.*s\n",
		    t.h.old.last, a->reason != NULL ? " and is revoked" : "", t.h.at.size,
		    STR_ARG(buf_str(&vkey)));
	}
	rotate_end(&t);
	return rc;
}

int
cmd_log_rotate_key(int argc, char **argv)
{
	struct key_args a = {.last = UINT64_MAX};
	struct err err = {0};

	if (!ARGS_READ("log rotate-key", rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.reason == NULL && a.last != UINT64_MAX)
		return args_wrong(
		    "log rotate-key", "--last %" PRIu64 " needs --revoke REASON", a.last);
	(void)umask(077);
	return rotate(&a, &err) == 0 ? CMD_OK : cmd_fail(&err);
}
