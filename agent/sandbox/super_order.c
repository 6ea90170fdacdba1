/*
 * An order to run a program: from the caller's encoding (sandbox_exec_encode) to the frame that
 * pid 1 reads, which parses nothing but lengths. Runs in the supervisor. Counts and sizes are
 * checked here, so that pid 1 gets only what it has room for.
 */
#include "agent/sandbox/super_state.h"

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ENV_MAX (2 * SANDBOX_ENV_MAX + 256) /* the spec's, ours and the exec's own */
#define ARGV_SHOWN 512			    /* bytes of the arguments in lists */

/* Appends s and a NUL; a NUL inside would make two of it. */
static void
put_z(struct rd *r, struct str s, struct buf *out)
{
	if (s.n != 0 && memchr(s.p, '\0', s.n) != NULL)
		r->bad = true;
	buf_put_str(out, s);
	buf_put_c(out, '\0');
}

static uint32_t
list_put(struct rd *r, uint32_t min, uint32_t max, struct buf *out)
{
	uint32_t n = rd_u32(r);

	if (n < min || n > max)
		r->bad = true;
	for (uint32_t i = 0; i < n && !r->bad; i++)
		put_z(r, rd_lstr(r), out);
	return n;
}

/* What stands behind `from` in out, as a JSON array for people. */
static char *
argv_shown(const struct buf *out, size_t from)
{
	AUTO_BUF struct buf json = BUF(16 * ARGV_SHOWN);
	struct str rest = str_mem(out->p + from, out->n - from), one;
	size_t left = ARGV_SHOWN;
	struct jcs j;

	jcs_init(&j, &json);
	jcs_array(&j, NULL);
	while (left != 0 && str_cut(&rest, '\0', &one)) {
		one.n = one.n < left ? one.n : left;
		left -= one.n;
		jcs_str_lossy(&j, NULL, one);
	}
	jcs_array_end(&j);
	return buf_dup_z(&json);
}

static void
code_put(struct rd *r, uint32_t proc, struct str ext, struct str code, struct buf *out)
{
	if (ext.n > 8 || code.n > SANDBOX_CODE_MAX)
		r->bad = true;
	for (size_t i = 0; i < ext.n && !r->bad; i++)
		if (ext.p[i] < 'a' || ext.p[i] > 'z')
			r->bad = true;
	buf_printf(out, "/tmp/.code/%u.%.*s", proc, STR_ARG(ext));
	buf_put_c(out, '\0');
	buf_put_str(out, code);
}

#define TIED 32u /* the one flag that is not for pid 1 */

static unsigned
flags_map(struct rd *r, unsigned in)
{
	static const unsigned to[] = {
	    INSIDE_MERGE, INSIDE_KEEP, INSIDE_STDIN, INSIDE_TTY, INSIDE_HELPER};
	unsigned out = 0;

	if (in >= 1u << ARRAY_LEN(to))
		r->bad = true;
	for (size_t i = 0; i < ARRAY_LEN(to); i++)
		out |= (in & 1u << i) != 0 ? to[i] : 0;
	return out;
}

int
super_order_make(struct str body, uint32_t proc, struct super_order *ret, struct err *err)
{
	struct super_order o = {.frame = BUF(INSIDE_ORDER_MAX)};
	struct rd r = rd_init(body);
	struct inside_spawn h = {0};
	struct str cwd, ext, code;
	size_t args;
	unsigned flags = rd_u8(&r);

	o.flags = flags_map(&r, flags & ~TIED);
	o.tied = (flags & TIED) != 0;
	o.timeout_ms = rd_u32(&r);
	h.rows = rd_u16(&r);
	h.cols = rd_u16(&r);
	cwd = rd_lstr(&r);
	ext = rd_lstr(&r);
	code = rd_lstr(&r);
	buf_put(&o.frame, &h, sizeof(h));
	put_z(&r, cwd, &o.frame);
	args = o.frame.n;
	h.argc = list_put(&r, 1, SANDBOX_ARGS_MAX, &o.frame);
	if (!r.bad && !buf_over(&o.frame))
		o.argv = argv_shown(&o.frame, args);
	h.envc = list_put(&r, 0, ENV_MAX, &o.frame);
	/* An interpreter without a file would take its standard input for one. */
	if (ext.n != 0 && code.n == 0)
		code = STR("\n");
	if (code.n != 0)
		code_put(&r, proc, ext, code, &o.frame);
	if (buf_over(&o.frame) || !rd_end(&r) || cwd.n == 0 || cwd.p[0] != '/') {
		bool over = buf_over(&o.frame);

		super_order_free(&o);
		return err_set(err, over ? ERR_TOO_LARGE : ERR_PROTOCOL,
		    over ? "sandbox: program and arguments are over %u bytes"
			 : "sandbox: malformed order (limit %u bytes)",
		    INSIDE_ORDER_MAX);
	}
	h.flags = o.flags;
	h.code_size = (uint32_t)code.n;
	memcpy(o.frame.p, &h, sizeof(h));
	*ret = o;
	return 0;
}

void
super_order_free(struct super_order *o)
{
	buf_free(&o->frame);
	free(o->argv);
	o->argv = NULL;
}
