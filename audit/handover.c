/*
 * Reads and follows handovers of the log's signing key. Runs in the writer, in verifiers and in the
 * command line that makes one. Whoever can write to the log can put a file there: only what a
 * trusted key has signed makes another one trusted, and only for sizes that the trusted one had.
 */
#include "audit/handover.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/segment.h"

#include "common/banned.h"

#define FIRST_LINE "cofferdam-log-key/1"

void
handover_text(struct buf *out, const struct handover *h)
{
	buf_put_z(out, FIRST_LINE "\n");
	checkpoint_text(out, &h->at);
	buf_printf(out, "%" PRIu64 "\n", h->old.last);
	vkey_put(out, &h->old);
	buf_put_c(out, '\n');
	vkey_put(out, &h->next);
	buf_put_c(out, '\n');
	if (h->reason[0] != '\0')
		buf_printf(out, "%s\n", h->reason);
}

static bool
take_reason(struct str *text, struct handover *h)
{
	struct str line;

	if (text->n == 0)
		return true;
	if (!str_cut(text, '\n', &line) || line.n == 0 || line.n > HANDOVER_REASON_MAX ||
	    !str_is_ascii_print(line))
		return false;
	(void)snprintf(h->reason, sizeof(h->reason), "%.*s", STR_ARG(line));
	return true;
}

static int
parse_text(struct str text, struct handover *ret, struct err *err)
{
	AUTO_BUF struct buf again = BUF(HANDOVER_MAX);
	struct str all = text, head, line[6];
	struct handover h = {.reason = ""};
	uint64_t last;
	int r;

	for (size_t i = 0; i < 6; i++)
		if (!str_cut(&text, '\n', &line[i]))
			return err_set(err, ERR_TAMPER, "handover has %zu lines, must have 7", i);
	head = str_mem(line[1].p, (size_t)(line[3].p + line[3].n + 1 - line[1].p));
	if (!str_eqz(line[0], FIRST_LINE) || !str_to_u64(line[4], INT64_MAX, &last))
		return err_set(err, ERR_TAMPER, "handover is not of the form");
	if ((r = checkpoint_parse_text(head, &h.at, err)) != 0)
		return r;
	if (vkey_parse(line[5], &h.old, err) != 0 || !str_cut(&text, '\n', &line[0]) ||
	    vkey_parse(line[0], &h.next, err) != 0 || !take_reason(&text, &h))
		return err_set(err, ERR_TAMPER, "handover's keys or reason are not of the form");
	h.old.last = last;
	h.next.first = h.at.size;
	handover_text(&again, &h);
	if (!str_eq(buf_str(&again), all))
		return err_set(err, ERR_TAMPER, "handover is spelled in another way");
	if (strcmp(h.old.name, h.at.origin) != 0 || strcmp(h.next.name, h.at.origin) != 0)
		return err_set(err, ERR_TAMPER, "handover is between keys of other logs");
	if (memcmp(h.old.id, h.next.id, sizeof(h.old.id)) == 0)
		return err_set(err, ERR_TAMPER, "handover is between keys of the same name and ID");
	if (h.at.size == 0 || last > h.at.size || (h.reason[0] == '\0' && last != h.at.size))
		return err_set(err, ERR_TAMPER,
		    "handover at size %" PRIu64 " cannot end the old key at %" PRIu64, h.at.size,
		    last);
	*ret = h;
	return 0;
}

int
handover_open(struct str note, struct handover *ret, struct err *err)
{
	const struct vkey *key;
	struct handover h;
	struct str text, sigs;
	int r;

	if (note.n > HANDOVER_MAX || !note_split(note, &text, &sigs))
		return err_set(err, ERR_TAMPER, "not a signed note");
	if ((r = parse_text(text, &h, err)) != 0)
		return r;
	for (int i = 0; i < 2; i++) {
		const struct vkeys one = {.n = 1, .key = {i == 0 ? h.old : h.next}};

		if (note_open(note, &one, &text, &key, err) != 0) {
			(void)err_wrap(err, "handover, by the %s key", i == 0 ? "old" : "new");
			return ERR_TAMPER;
		}
	}
	*ret = h;
	return 0;
}

/* --- following ------------------------------------------------------------------------- */

static struct vkey *
find(struct vkeys *keys, const struct vkey *k)
{
	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->key[i].name, k->name) == 0 &&
		    memcmp(keys->key[i].id, k->id, sizeof(k->id)) == 0)
			return &keys->key[i];
	return NULL;
}

/* 1: believed; 0: not between keys that are trusted here. */
static int
believe(struct vkeys *keys, const struct handover *h, struct err *err)
{
	struct vkey *old = find(keys, &h->old), *next = find(keys, &h->next);
	bool known = old != NULL && next != NULL && old->last == h->old.last;

	if (old == NULL)
		return 0;
	if (memcmp(old->pub, h->old.pub, sizeof(old->pub)) != 0 ||
	    (next != NULL && memcmp(next->pub, h->next.pub, sizeof(next->pub)) != 0))
		return err_set(err, ERR_TAMPER, "another key has the same name and ID");
	/* What the key file says already is not asked of the old key once more. */
	if (!known && (h->at.size < old->first || h->at.size > old->last))
		return err_set(err, ERR_TAMPER,
		    "handed over at size %" PRIu64 " by a key for sizes %" PRIu64 " to %" PRIu64,
		    h->at.size, old->first, old->last);
	if (next == NULL && keys->n == VKEYS_MAX)
		return err_set(err, ERR_TAMPER, "more than %d keys", VKEYS_MAX);
	old->last = h->old.last;
	old->revoked |= h->reason[0] != '\0';
	if (next == NULL)
		keys->key[keys->n++] = h->next;
	else if (next->first < h->next.first)
		next->first = h->next.first;
	return 1;
}

static int
follow_one(int dir, uint64_t number, struct vkeys *keys, struct handover *ret, struct err *err)
{
	AUTO_BUF struct buf note = BUF(HANDOVER_MAX);
	char name[LOG_NAME_SIZE];
	int r;

	log_name(name, number, "");
	if ((r = log_read_file(dir, name, &note, err)) != 0 ||
	    (r = handover_open(buf_str(&note), ret, err)) != 0)
		return r;
	if (ret->at.size != number)
		return err_set(err, ERR_TAMPER, "is for size %" PRIu64, ret->at.size);
	return believe(keys, ret, err);
}

int
handovers_follow(int logdir, struct vkeys *keys, handover_fn *fn, void *arg, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	int r = log_open_dir(logdir, LOG_KEY, &dir, err);

	if (r != 0)
		return log_or_none(r, err);
	r = log_files_list(logdir, LOG_KEY, "", NULL, &files, err);
	for (size_t i = 0; r == 0 && i < files.n[0]; i++) {
		struct handover h;
		struct err why = {0};
		int one = follow_one(dir, files.number[0][i], keys, &h, &why);

		if (one != 0 && fn != NULL)
			fn(arg, files.number[0][i], one == 1 ? &h : NULL, &why);
		if (one < 0)
			return 0;
	}
	return r;
}
