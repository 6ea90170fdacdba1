/*
 * Opening and closing the store: lock, recovery, ballast, the first batch of a start and the last
 * of an end. Runs in the writer alone. It must never call a log open whose first batch is not
 * synced and signed, and never begin on one that recovery refused.
 */
#include <errno.h>
#include <fcntl.h>

#include "audit/writer_int.h"
#include "common/clock.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

static void
opts_default(struct store_opts *o)
{
	o->segment_max = o->segment_max != 0 ? o->segment_max : STORE_SEGMENT_MAX;
	o->pack_max = o->pack_max != 0 ? o->pack_max : STORE_PACK_MAX;
	o->ballast = o->ballast != 0 ? o->ballast : STORE_BALLAST;
	o->segment_age_us = o->segment_age_us != 0 ? o->segment_age_us : STORE_SEGMENT_AGE_US;
}

static int
append_recovered(
    struct store *s, const char *file, uint64_t bytes, const struct hash *sha256, struct err *err)
{
	AUTO_BUF struct buf data = BUF(1024);
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_int(&j, "bytes", (int64_t)bytes);
	jcs_z(&j, "file", file);
	jcs_hex(&j, "sha256", sha256->b, HASH_LEN);
	jcs_close(&j);
	return store_append(
	    s, "log.recovered", STR("broker"), STR(""), buf_str(&data), &seq, NULL, err);
}

static void
put_witnesses(struct jcs *j, const struct cosigners *who)
{
	if (who == NULL || who->n == 0)
		return;
	jcs_array(j, "witnesses");
	for (size_t i = 0; i < who->n; i++) {
		AUTO_BUF struct buf key = BUF(512);

		cosigner_put(&key, &who->key[i]);
		jcs_str(j, NULL, buf_str(&key));
	}
	jcs_array_end(j);
}

static int
append_open(struct store *s, const struct recovered *rec, struct err *err)
{
	AUTO_BUF struct buf data = BUF(8192), vkey = BUF(1024);
	uint64_t seq;
	struct jcs j;
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++)
		if (rec->bytes[i] != 0)
			r = append_recovered(
			    s, i == 0 ? "segment" : "pack", rec->bytes[i], &rec->sha256[i], err);
	if (r != 0)
		return r;
	vkey_put(&vkey, signer_vkey(s->signer));
	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_z(&j, "boot", s->opts.boot != NULL ? s->opts.boot : "");
	jcs_z(&j, "origin", signer_vkey(s->signer)->name);
	if (rec->bytes[0] != 0 || rec->bytes[1] != 0)
		jcs_int(&j, "recovered", (int64_t)(rec->bytes[0] + rec->bytes[1]));
	jcs_z(&j, "software", s->opts.software != NULL ? s->opts.software : "");
	if (s->adopted != 0)
		jcs_int(&j, "unsigned", (int64_t)s->adopted);
	jcs_str(&j, "vkey", buf_str(&vkey));
	put_witnesses(&j, s->opts.witnesses);
	jcs_close(&j);
	return store_append(s, "log.open", STR("broker"), STR(""), buf_str(&data), &seq, NULL, err);
}

/* Is the clock behind what was recorded last? */
static void
look_back(struct store *s)
{
	int64_t last;

	if (clock_parse(str_z(s->last_time), &last, NULL) == 0 && last > clock_wall_us())
		s->clock_back_us = last - clock_wall_us();
}

static int
open_steps(struct store *s, struct err *err)
{
	struct recovered rec = {0};
	int r = files_dirs(s, err);

	if (r == 0)
		r = files_lock(s, err);
	if (r == 0)
		r = store_recover(s, &rec, err);
	if (r == 0)
		look_back(s);
	if (r == 0)
		r = files_ballast(s, err);
	if (r == 0)
		r = key_handed(s, err);
	if (r == 0)
		r = append_open(s, &rec, err);
	if (r == 0)
		r = store_commit(s, err);
	if (r == 0)
		r = store_checkpoint(s, err);
	s->serving = true;
	return r != 0 ? r : store_publish(s, err);
}

int
store_open(int logdir, struct signer *signer, const struct store_opts *opts, struct store **ret,
    struct err *err)
{
	struct store *s = xcalloc(1, sizeof(*s));
	int r;

	s->logdir = logdir;
	s->segdir = s->cpdir = s->blobdir = s->torndir = s->livedir = -1;
	s->lockfd = s->dirlock = s->seg = s->pack = -1;
	s->signer = signer;
	s->opts = *opts;
	opts_default(&s->opts);
	buf_init(&s->lines, STORE_BATCH_MAX + 2 * RECORD_LINE_MAX);
	buf_init(&s->body, RECORD_BODY_MAX);
	buf_init(&s->frames, FRAMES_MAX);
	buf_init(&s->note, CHECKPOINT_MAX);
	r = open_steps(s, err);
	if (r != 0) {
		store_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void
store_free(struct store *s)
{
	if (s == NULL)
		return;
	for (int i = 0; i < 9; i++)
		cleanup_close_fd((int *[]){&s->segdir, &s->cpdir, &s->blobdir, &s->torndir,
		    &s->livedir, &s->lockfd, &s->dirlock, &s->seg, &s->pack}[i]);
	buf_free(&s->lines);
	buf_free(&s->body);
	buf_free(&s->frames);
	buf_free(&s->note);
	free(s->seg_leaves.p);
	free(s->unsigned_leaves.p);
	free(s);
}

int
store_close(struct store *s, struct err *err)
{
	uint64_t seq;
	int r = store_append(s, "log.close", STR("broker"), STR(""), STR("{}"), &seq, NULL, err);

	if (r == 0)
		r = store_commit(s, err);
	if (r == 0)
		r = store_checkpoint(s, err);
	if (r == 0)
		r = store_publish(s, err);
	s->dead = true; /* nothing may stand behind a log.close but the next start */
	return r;
}
