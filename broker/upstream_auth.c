/*
 * From the start-up packet to the first ReadyForQuery. Runs in upstream. The packet is built
 * here from what core allowed; only SCRAM is spoken, and a server that lets us in without
 * having proved that it knows the password is refused.
 */
#include "broker/upstream.h"

#include <stdio.h>

#include "common/log.h"

#include "common/banned.h"

#define SASL_MAX 8192

/* --- the start-up packet --------------------------------------------------------- */

/* Set by us, whatever the client asked for. */
static const char *const ours[] = {
    "user", "database", "client_encoding", "standard_conforming_strings"};
/* Core refuses these; a second look costs nothing. */
static const char *const never[] = {"options", "replication", "password"};

static bool
is_one_of(struct str key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_ieqz(key, list[i]))
			return true;
	return false;
}

int
upstream_auth_startup(struct upstream_conn *c, const struct upstream_open *o, struct err *err)
{
	struct pgwire_param p[PGWIRE_STARTUP_PARAMS + ARRAY_LEN(ours)];
	size_t n = 0;

	/* What the classifier reads is what the server reads: one encoding, one rule for '\'. */
	p[n++] = (struct pgwire_param){STR("user"), o->user};
	p[n++] = (struct pgwire_param){STR("database"), o->database};
	p[n++] = (struct pgwire_param){STR("client_encoding"), STR("UTF8")};
	p[n++] = (struct pgwire_param){STR("standard_conforming_strings"), STR("on")};
	for (size_t i = 0; i < o->nparams; i++) {
		struct str key = o->params[i].key;

		if (is_one_of(key, never, ARRAY_LEN(never)) || str_has_prefix(key, "_pq_."))
			return err_set(err, ERR_DENIED, "start-up parameter \"%.*s\" is never sent",
			    STR_ARG(key));
		if (!is_one_of(key, ours, ARRAY_LEN(ours)) && key.n != 0)
			p[n++] = o->params[i];
	}
	pgwire_put_startup(&c->startup, p, n);
	if (buf_over(&c->startup) || c->startup.n > PGWIRE_STARTUP_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "start-up packet over %d bytes", PGWIRE_STARTUP_MAX);
	return 0;
}

/* --- authentication -------------------------------------------------------------- */

static int
sasl_begin(struct upstream_conn *c, struct str offered, struct err *err)
{
	AUTO_BUF struct buf data = BUF(SASL_MAX);
	AUTO_BUF struct buf out = BUF(SASL_MAX);
	const char *mechanism = NULL;
	int rc;

	if (c->password == NULL)
		return err_set(err, ERR_PROTOCOL, "the server asks for authentication twice");
	rc = upstream_scram_new(TAKE_PTR(c->password), STR(""), NULL, &c->scram, err);
	if (rc == 0)
		rc = upstream_scram_first(
		    c->scram, offered, buf_str(&c->binding), &mechanism, &data, err);
	if (rc != 0)
		return rc;
	pgwire_put_sasl_first(&out, mechanism, buf_str(&data));
	upstream_conn_send(c, buf_str(&out));
	return 0;
}

static int
sasl_continue(struct upstream_conn *c, struct str text, struct err *err)
{
	AUTO_BUF struct buf data = BUF(SASL_MAX);
	AUTO_BUF struct buf out = BUF(SASL_MAX);
	int rc;

	if (c->scram == NULL)
		return err_set(
		    err, ERR_PROTOCOL, "the server goes on with a SASL exchange not begun");
	rc = upstream_scram_continue(c->scram, text, &data, err);
	if (rc != 0)
		return rc;
	pgwire_put_sasl(&out, buf_str(&data));
	upstream_conn_send(c, buf_str(&out));
	return 0;
}

static int
sasl_final(struct upstream_conn *c, struct str text, struct err *err)
{
	int rc;

	if (c->scram == NULL)
		return err_set(err, ERR_PROTOCOL, "the server ends a SASL exchange not begun");
	rc = upstream_scram_finish(c->scram, text, err);
	if (rc != 0)
		return rc;
	upstream_scram_free(TAKE_PTR(c->scram));
	c->scram_done = true;
	return 0;
}

static int
auth_request(struct upstream_conn *c, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	uint32_t code = rd_u32(&r);

	if (r.bad)
		return err_set(err, ERR_PROTOCOL, "malformed authentication request");
	switch (code) {
	case 0:
		if (!c->scram_done)
			return err_set(err, ERR_UNAUTHORISED,
			    "the server lets us in without SCRAM-SHA-256: it has not proved that "
			    "it knows the password");
		c->state = UP_STARTING;
		return 0;
	case 3:
		return err_set(err, ERR_UNSUPPORTED,
		    "the server asks for the password in clear; only scram-sha-256 is spoken");
	case 5:
		return err_set(err, ERR_UNSUPPORTED,
		    "the server asks for md5 authentication; only scram-sha-256 is spoken (set "
		    "password_encryption and renew the password)");
	case 10: return sasl_begin(c, str_mem(r.p, r.n), err);
	case 11: return sasl_continue(c, str_mem(r.p, r.n), err);
	case 12: return sasl_final(c, str_mem(r.p, r.n), err);
	default:
		return err_set(err, ERR_UNSUPPORTED,
		    "the server asks for authentication method %u; only scram-sha-256 is spoken",
		    code);
	}
}

/* --- parameters ------------------------------------------------------------------ */

int
upstream_auth_parameter(struct upstream_conn *c, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	struct str key = pgwire_rd_z(&r), value = pgwire_rd_z(&r);

	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "malformed ParameterStatus");
	if (str_eqz(key, "client_encoding"))
		c->utf8 = str_eqz(value, "UTF8");
	else if (str_eqz(key, "standard_conforming_strings"))
		c->scs = str_eqz(value, "on");
	else
		value = value.p != NULL ? value : STR("");
	if (c->state == UP_READY && (!c->utf8 || !c->scs))
		return err_set(err, ERR_DENIED,
		    "the session's %.*s became \"%.*s\": statements can no longer be judged, the "
		    "connection ends",
		    STR_ARG(key), STR_ARG(value));
	if (c->state != UP_READY) {
		buf_lstr(&c->params, key);
		buf_lstr(&c->params, value);
		c->nparams++;
	}
	return 0;
}

static int
opened(struct upstream_conn *c, struct str body, struct err *err)
{
	AUTO_BUF struct buf b = BUF(65536);

	if (body.n != 1 || body.p[0] != 'I')
		return err_set(err, ERR_PROTOCOL, "the first ReadyForQuery is not idle");
	if (!c->utf8 || !c->scs || buf_over(&c->params))
		return err_set(err, ERR_UNSUPPORTED,
		    "the server does not confirm client_encoding=UTF8 and "
		    "standard_conforming_strings=on");
	c->state = UP_READY;
	loop_timer_del(TAKE_PTR(c->timer));
	buf_u64(&b, c->id);
	buf_u8(&b, 1);
	buf_lz(&b, "");
	buf_lz(&b, "");
	buf_lz(&b, c->peer);
	buf_lz(&b, c->cert);
	buf_u32(&b, c->nparams);
	buf_put_str(&b, buf_str(&c->params));
	upstream_hub_core(c->hub, MSG_U_OPENED, &b);
	buf_free(&c->params);
	return 0;
}

static int
refused(struct upstream_conn *c, struct str body, struct err *err)
{
	struct pgwire_error e;
	AUTO_FREE char *state = NULL, *text = NULL;
	int rc = pgwire_error_parse(body, &e, err);

	if (rc != 0)
		return rc;
	state = str_dup(e.sqlstate.n == 5 ? e.sqlstate : STR("08006"));
	text = str_dup(e.message);
	upstream_conn_end(c, state, text);
	return 0;
}

int
upstream_auth_message(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	bool starting = c->state == UP_STARTING;

	switch (m->type) {
	case 'E': return refused(c, m->body, err);
	case 'N': return 0;
	case 'R':
		if (!starting)
			return auth_request(c, m->body, err);
		break;
	case 'S':
		if (starting)
			return upstream_auth_parameter(c, m->body, err);
		break;
	case 'K':
		if (!starting)
			break;
		c->has_key = m->body.n == sizeof(c->key);
		if (c->has_key)
			memcpy(c->key, m->body.p, sizeof(c->key));
		return 0;
	case 'Z':
		if (starting)
			return opened(c, m->body, err);
		break;
	default: break;
	}
	return err_set(err, ERR_PROTOCOL, "the server sent message type %u while starting",
	    (unsigned)(uint8_t)m->type);
}
