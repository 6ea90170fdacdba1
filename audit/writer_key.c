/*
 * The store's part in a change of the signing key: the head that the old key signed last is
 * believed, up to the size at which it handed over and no further; the handover goes into the log's
 * directory and on the record before the new key signs. Runs in the writer alone, which has never
 * both secrets.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "audit/handover.h"
#include "audit/writer_int.h"

#include "common/banned.h"

/* The old key is believed up to where it handed over, whether it was revoked for earlier or not. */
void
key_trusted(const struct store *s, struct vkeys *ret)
{
	const struct handover *h = s->opts.handover;

	*ret = (struct vkeys){.n = 1, .key = {*signer_vkey(s->signer)}};
	if (h == NULL)
		return;
	ret->key[ret->n] = h->old;
	ret->key[ret->n++].last = h->at.size;
}

void
key_signed_last(struct store *s, const struct vkey *key)
{
	const struct handover *h = s->opts.handover;

	s->handed = h != NULL && memcmp(key->pub, h->old.pub, sizeof(key->pub)) == 0;
}

static int
append_key(struct store *s, struct err *err)
{
	const struct handover *h = s->opts.handover;
	AUTO_BUF struct buf data = BUF(8192), vkey = BUF(1024);
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_int(&j, "last", (int64_t)h->old.last);
	jcs_str(&j, "note", s->opts.handover_note);
	vkey_put(&vkey, &h->old);
	jcs_str(&j, "old", buf_str(&vkey));
	if (h->reason[0] != '\0')
		jcs_z(&j, "reason", h->reason);
	jcs_int(&j, "size", (int64_t)h->at.size);
	buf_reset(&vkey);
	vkey_put(&vkey, &h->next);
	jcs_str(&j, "vkey", buf_str(&vkey));
	jcs_close(&j);
	return store_append(
	    s, "log.key", STR("operator"), STR(""), buf_str(&data), &seq, NULL, err);
}

/* Again at each start until the new key has signed: killed in between, the same is written twice.
 */
int
key_handed(struct store *s, struct err *err)
{
	AUTO_FD int dir = -1;
	char name[LOG_NAME_SIZE];
	int r;

	if (!s->handed)
		return 0;
	if ((r = files_key_dir(s, &dir, err)) != 0)
		return r;
	log_name(name, s->opts.handover->at.size, "");
	if ((r = files_replace(dir, name, s->opts.handover_note, 0440, err)) != 0)
		return err_wrap(err, "handover of the key");
	return append_key(s, err);
}
