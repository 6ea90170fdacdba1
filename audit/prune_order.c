/*
 * The text of an order to prune, written and read. Runs in the command line that signs one and in
 * the writer that carries it out. Whoever can write to the log's directory can put a file there:
 * only what the log's key signed, spelled in the one way, is an order.
 */
#include "audit/prune_order.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/banned.h"

#define FIRST_LINE "cofferdam-log-prune/1"
#define LINES 10

void
prune_order_text(struct buf *out, const struct prune_order *o)
{
	buf_put_z(out, FIRST_LINE "\n");
	checkpoint_text(out, &o->to);
	buf_printf(out, "%" PRIu64 "\n%" PRIu64 "\n%" PRIu64 "\n%" PRIu64 "\n", o->from,
	    o->segments, o->bytes, o->kept);
	enc_hex(out, str_mem(o->kept_sha256.b, HASH_LEN));
	buf_printf(out, "\n%s\n%s\n", o->by, o->reason);
}

static bool
take_text(struct str line, char *ret, size_t max)
{
	if (line.n == 0 || line.n > max || !str_is_ascii_print(line))
		return false;
	memcpy(ret, line.p, line.n);
	ret[line.n] = '\0';
	return true;
}

static int
parse(struct str text, struct prune_order *ret, struct err *err)
{
	AUTO_BUF struct buf again = BUF(PRUNE_ORDER_MAX);
	struct str all = text, line[LINES + 1], head;
	struct prune_order o = {.from = 0};
	int r;

	for (size_t i = 0; i <= LINES; i++)
		if (!str_cut(&text, '\n', &line[i]))
			return err_set(
			    err, ERR_TAMPER, "order has %zu lines, must have %d", i, LINES + 1);
	head = str_mem(line[1].p, (size_t)(line[3].p + line[3].n + 1 - line[1].p));
	if ((r = checkpoint_parse_text(head, &o.to, err)) != 0)
		return r;
	if (!str_eqz(line[0], FIRST_LINE) || !str_to_u64(line[4], INT64_MAX, &o.from) ||
	    !str_to_u64(line[5], INT64_MAX, &o.segments) ||
	    !str_to_u64(line[6], INT64_MAX, &o.bytes) || !str_to_u64(line[7], INT64_MAX, &o.kept) ||
	    !hash_from_hex(line[8], &o.kept_sha256) || !take_text(line[9], o.by, PRUNE_BY_MAX) ||
	    !take_text(line[10], o.reason, PRUNE_REASON_MAX))
		return err_set(err, ERR_TAMPER, "order is not of the form");
	prune_order_text(&again, &o);
	if (!str_eq(buf_str(&again), all))
		return err_set(err, ERR_TAMPER, "order is spelled in another way");
	if (o.from >= o.to.size)
		return err_set(err, ERR_TAMPER,
		    "order prunes from %" PRIu64 " to %" PRIu64 ": nothing", o.from, o.to.size);
	*ret = o;
	return 0;
}

int
prune_order_open(
    struct str note, const struct vkeys *keys, struct prune_order *ret, struct err *err)
{
	const struct vkey *key;
	struct prune_order o;
	struct str text;
	int r;

	if (note.n > PRUNE_ORDER_MAX)
		return err_set(
		    err, ERR_TAMPER, "order of %zu bytes, limit %d", note.n, PRUNE_ORDER_MAX);
	if ((r = note_open(note, keys, &text, &key, err)) != 0 || (r = parse(text, &o, err)) != 0)
		return r;
	if (strcmp(o.to.origin, key->name) != 0)
		return err_set(err, ERR_TAMPER, "order is for another log");
	*ret = o;
	return 0;
}
