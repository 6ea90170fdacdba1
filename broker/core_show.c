/*
 * An action as people are shown it, as it is sealed into the log, and its digest (process:
 * core). Parameters stand before the statement, inside brackets that no SQL text begins
 * with, so that a comment in the statement cannot pretend to be a parameter.
 */
#include "broker/core_act.h"
#include "policy/digest.h"

#include <stdlib.h>

#include "broker/core_pg.h"

#include "common/banned.h"

#define SHOW_MAX ((size_t)3 << 20)
#define PARAMS_SEALED_MAX ((size_t)256 << 10)

/* --- Bind parameters ------------------------------------------------------------- */

struct param {
	bool null, binary;
	struct str value;
};
struct params {
	struct rd fmt, val;
	uint16_t nfmt, n, at;
};

/* `body` was checked to be of the form of a Bind behind its names. */
static struct params
params_begin(struct str body)
{
	struct params p = {0};

	p.val = rd_init(body);
	p.nfmt = rd_u16(&p.val);
	p.fmt = rd_init(rd_bytes(&p.val, (size_t)2 * p.nfmt));
	p.n = rd_u16(&p.val);
	return p;
}

static bool
params_next(struct params *p, struct param *ret)
{
	uint16_t f = 0;
	uint32_t len;

	if (p->at >= p->n || p->val.bad)
		return false;
	/* None: all text; one: for all; else one each (protocol 55.7, Bind). */
	if (p->nfmt > 1 || (p->nfmt == 1 && p->at == 0))
		f = rd_u16(&p->fmt);
	else if (p->nfmt == 1)
		f = ret->binary ? 1 : 0;
	len = rd_u32(&p->val);
	*ret = (struct param){.null = len == UINT32_MAX, .binary = f != 0};
	if (!ret->null)
		ret->value = rd_bytes(&p->val, len);
	p->at++;
	return true;
}

static bool
is_text(const struct param *v)
{
	return !v->binary && str_is_utf8(v->value) &&
	       (v->value.n == 0 || memchr(v->value.p, '\0', v->value.n) == NULL);
}

static void
param_show(struct buf *b, const struct param *v)
{
	if (v->null) {
		buf_put_z(b, "NULL");
	} else if (!is_text(v)) {
		buf_put_z(b, "binary ");
		enc_hex(b, v->value);
	} else {
		buf_put_c(b, '\'');
		for (size_t i = 0; i < v->value.n; i++) {
			if (v->value.p[i] == '\'')
				buf_put_c(b, '\'');
			buf_put_c(b, v->value.p[i]);
		}
		buf_put_c(b, '\'');
	}
}

static void
params_show(struct buf *b, struct str body)
{
	struct params p = params_begin(body);
	struct param v = {0};
	unsigned n = 0;

	while (params_next(&p, &v)) {
		buf_printf(b, n == 0 ? "[$%u = " : ", $%u = ", n + 1);
		param_show(b, &v);
		n++;
	}
	if (n != 0)
		buf_put_z(b, "] ");
}

/* --- for people ------------------------------------------------------------------ */

static void
commit_show(struct buf *b, const struct core_action *a)
{
	char hex[HASH_HEX_SIZE];

	if (!a->commits || a->act == NULL)
		return;
	hash_hex(&a->act->txn.chain, hex);
	buf_printf(b, "[commits %u statements, sha256 %s] ", a->act->txn.n, hex);
}

char *
core_act_show(const struct core_action *a)
{
	AUTO_BUF struct buf b = BUF(SHOW_MAX);

	if (a->op == CORE_OP_FUNCTION)
		return str_dup(STR("(function call by oid)"));
	if (!str_is_utf8(a->text))
		return str_dup(STR("(a statement that is not UTF-8)"));
	commit_show(&b, a);
	if (a->params.n != 0)
		params_show(&b, a->params);
	if (a->inner != NULL)
		buf_printf(&b, "[runs %s] ", a->inner);
	buf_put_str(&b, a->text.n != 0 ? a->text : STR("(empty statement)"));
	return buf_dup_z(&b);
}

/* --- sealed into the log --------------------------------------------------------- */

static void
params_json(struct jcs *j, struct str body)
{
	struct params p = params_begin(body);
	struct param v = {0};

	jcs_array(j, "values");
	while (params_next(&p, &v)) {
		AUTO_BUF struct buf hex = BUF(2 * PARAMS_SEALED_MAX);

		jcs_open(j, NULL);
		if (v.null) {
			jcs_bool(j, "null", true);
		} else if (is_text(&v)) {
			jcs_str(j, "text", v.value);
		} else {
			enc_hex(&hex, v.value);
			jcs_str(j, "hex", buf_str(&hex));
		}
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
head_json(struct buf *b, const struct core_action *a)
{
	struct hash h = hash_sha256(a->params);
	struct jcs j;

	jcs_init(&j, b);
	jcs_open(&j, NULL);
	if (a->inner != NULL)
		jcs_str_lossy(&j, "inner", str_z(a->inner));
	jcs_str_lossy(&j, "sql", a->text);
	if (a->params.n > PARAMS_SEALED_MAX)
		jcs_hex(&j, "values_sha256", h.b, HASH_LEN);
	else if (a->params.n != 0)
		params_json(&j, a->params);
	jcs_close(&j);
}

int
core_act_head(const struct core_run *run, const struct core_action *a, struct buf *frame,
    struct blob_ref *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(BLOB_PLAIN_MAX);

	if (a->params.n == 0 && a->inner == NULL)
		return blob_seal(
		    run->key, str_z(run->id), "application/sql", a->text, frame, ret, err);
	head_json(&b, a);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "statement and parameters are over %zu bytes",
		    BLOB_PLAIN_MAX);
	return blob_seal(
	    run->key, str_z(run->id), "application/json", buf_str(&b), frame, ret, err);
}

/* --- digest ---------------------------------------------------------------------- */

struct hash
core_act_digest(const struct core_conn *conn, struct core_action *a, const struct core_txn *txn)
{
	AUTO_BUF struct buf params = BUF(SHOW_MAX);
	AUTO_BUF struct buf pins = BUF(65536);
	AUTO_BUF struct buf effects = BUF(512);
	struct digest *d = digest_begin();

	if (a->op == CORE_OP_EXECUTE) {
		buf_lstr(&params,
		    a->stmt != NULL ? str_mem(a->stmt->types, a->stmt->ntypes_bytes) : STR(""));
		buf_lstr(&params, a->params);
		buf_u32(&params, a->max_fetch);
	}
	buf_lz(&pins, conn->pins);
	buf_lz(&pins, core_op_name(a->op));
	/* In a failed block nothing runs: what is asked for there is to run in one that has not. */
	buf_u8(&pins, txn->state == 'E' ? 'T' : (uint8_t)txn->state);
	if (a->commits) {
		buf_u32(&pins, txn->n);
		buf_put(&pins, txn->chain.b, HASH_LEN);
	}
	effect_put(&effects, a->effects);
	buf_put_z(&effects, " " EFFECTS_ENGINE);
	digest_field(d, DIGEST_PROTOCOL, STR("postgresql"));
	digest_field(d, DIGEST_TARGET, str_z(conn->from.target->id));
	digest_field(d, DIGEST_UPSTREAM, str_z(conn->from.address));
	digest_field(d, DIGEST_UPSTREAM_ID, str_z(conn->peer_id));
	digest_field(d, DIGEST_CREDENTIAL, str_z(conn->from.credential));
	digest_field(d, DIGEST_AGENT, str_z(conn->from.run->agent));
	digest_field(d, DIGEST_RUN, str_z(conn->from.run->id));
	digest_field(d, DIGEST_OPERATION, a->text);
	digest_field(d, DIGEST_RESOURCE, str_z(a->inner));
	digest_field(d, DIGEST_PARAMETERS, buf_str(&params));
	digest_field(d, DIGEST_SESSION, buf_str(&pins));
	digest_field(d, DIGEST_EFFECTS, buf_str(&effects));
	return digest_end_parts(d, &a->parts);
}
