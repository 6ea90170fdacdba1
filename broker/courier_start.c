/*
 * What the courier is given before it is confined: its webhooks, their secrets, addresses and CAs.
 * Runs in the courier. A webhook whose files are not right sends nothing and says why; the others
 * do not suffer from it.
 */
#include "broker/courier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SECRET_FILE_MAX 512
#define HEADER_FILE_MAX 4096
#define CA_MAX ((size_t)256 << 10)

static void
broken(struct hook *h, const char *why)
{
	if (h->state == HOOK_BROKEN)
		return;
	h->state = HOOK_BROKEN;
	log_error("%s %s: %s: nothing is sent there", h->conf->key != NULL ? "witness" : "webhook",
	    h->conf->name, why);
	(void)snprintf(h->count.why, sizeof(h->count.why), "%s", why);
}

static void
nets_read(struct hook *h)
{
	struct err err = {0};

	for (size_t i = 0; i < h->conf->nnetworks; i++) {
		if (upstream_net_parse(str_z(h->conf->networks[i]), &h->nets[h->nnets], &err) !=
		    0) {
			broken(h, err.msg);
			return;
		}
		h->nnets++;
	}
}

typedef int read_fn(
    const struct json_doc *doc, const struct json *v, struct webhooks *ret, struct err *err);

/* From a document of its own, whose places the messages name. */
static int
read_list(const struct json *config, const char *key, read_fn *read, struct webhooks *ret,
    struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf text = BUF((size_t)128 << 10);
	struct jcs j;
	int rc;

	jcs_init(&j, &text);
	rc = jcs_value(&j, NULL, json_get(config, key), err);
	if (rc == 0)
		rc = json_parse(buf_str(&text), key, &doc, err);
	return rc != 0 ? rc : read(doc, json_root(doc), ret, err);
}

/* i tells them apart, webhooks first. */
static void
hook_init(struct courier *c, struct hook *h, size_t i, const struct webhook *conf)
{
	h->c = c;
	h->i = (uint32_t)i;
	h->conf = conf;
	h->next = conf->from_first ? 0 : COURIER_START;
	h->batch_max = UINT32_MAX;
	buf_init(&h->piece, (size_t)1 << 19);
	buf_init(&h->body, conf->otlp ? COURIER_OTLP_MAX : COURIER_BODY_MAX);
	buf_init(&h->answer, COURIER_ANSWER_MAX);
	buf_init(&h->ca, CA_MAX);
	nets_read(h);
}

int
courier_config(struct courier *c, const struct json *config, struct err *err)
{
	struct str origin = json_str(json_get(config, "origin"));
	int rc;

	if (origin.n == 0 || origin.n > 200)
		return err_set(err, ERR_CONFIG, "origin is missing");
	c->origin = str_dup(origin);
	c->console = str_dup(json_str(json_get(config, "console")));
	rc = read_list(config, "webhooks", webhooks_parse, &c->conf, err);
	if (rc == 0)
		rc = read_list(
		    config, "witnesses", webhooks_parse_witnesses, &c->witnesses_conf, err);
	if (rc != 0)
		return rc;
	c->nhooks = c->conf.n;
	for (size_t i = 0; i < c->nhooks; i++)
		hook_init(c, &c->hooks[i], i, &c->conf.v[i]);
	c->nwitnesses = c->witnesses_conf.n;
	c->witnesses = xcalloc(WITNESSES_MAX, sizeof(*c->witnesses));
	for (size_t i = 0; i < c->nwitnesses; i++)
		hook_init(c, &c->witnesses[i], WEBHOOKS_MAX + i, &c->witnesses_conf.v[i]);
	return 0;
}

/* --- files ---------------------------------------------------------------------------------- */

static int
secrets_read(struct hook *h, int fd, struct err *err)
{
	AUTO(secret) struct secret *all = NULL;
	struct str text, line;
	int rc = secret_read_fd(fd, SECRET_FILE_MAX, &all, err);

	if (rc != 0)
		return rc;
	text = secret_str(all);
	while (rc == 0 && text.n != 0) {
		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text.n = 0;
		}
		if (str_trim(line).n == 0)
			continue;
		if (h->nsecrets == COURIER_SECRETS_MAX)
			return err_set(
			    err, ERR_CONFIG, "more than %d secrets", COURIER_SECRETS_MAX);
		rc = courier_secret_parse(line, &h->secrets[h->nsecrets], err);
		if (rc == 0)
			h->nsecrets++;
	}
	if (rc == 0 && h->nsecrets == 0)
		return err_set(err, ERR_CONFIG, "no secret");
	return rc;
}

static int
url_read(struct hook *h, int fd, struct err *err)
{
	AUTO(secret) struct secret *all = NULL;
	int rc = secret_read_fd(fd, WEBHOOK_URL_MAX + 2, &all, err);

	return rc != 0 ? rc : webhook_url_parse(str_trim(secret_str(all)), &h->url, err);
}

static int
header_read(struct hook *h, int fd, struct err *err)
{
	AUTO(secret) struct secret *all = NULL;
	int rc = secret_read_fd(fd, HEADER_FILE_MAX, &all, err);

	return rc != 0 ? rc : courier_header_parse(secret_str(all), &h->header, err);
}

static int
ca_read(struct hook *h, int fd, struct err *err)
{
	ssize_t n;

	do {
		uint8_t *p = buf_grow(&h->ca, 4096);

		if (p == NULL)
			return err_set(err, ERR_TOO_LARGE, "over %zu bytes", CA_MAX);
		n = read(fd, p, 4096);
		h->ca.n -= 4096 - (n > 0 ? (size_t)n : 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? err_sys(err, ERR_SYSTEM, errno, "read") : 0;
}

static const struct {
	const char *kind;
	int (*fn)(struct hook *h, int fd, struct err *err);
} files[] = {{"secret", secrets_read}, {"url", url_read}, {"ca", ca_read}, {"header", header_read}};

static struct hook *
hook_named(struct hook *all, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(name, all[i].conf->name))
			return &all[i];
	return NULL;
}

int
courier_fd(struct courier *c, struct str name, int fd, struct err *err)
{
	AUTO_FD int own = fd;
	struct str rest = name, kind;
	struct err why = {0};
	struct hook *h;

	if (str_eqz(name, "courier") && c->dir < 0) {
		c->dir = TAKE_FD(own);
		return 0;
	}
	if (!str_cut(&rest, ':', &kind))
		return err_set(err, ERR_PROTOCOL, "not expected here");
	h = str_eqz(kind, "witness-ca") ? hook_named(c->witnesses, c->nwitnesses, rest)
					: hook_named(c->hooks, c->nhooks, rest);
	if (h != NULL && h->conf->key != NULL)
		kind = STR("ca");
	for (size_t k = 0; h != NULL && k < ARRAY_LEN(files); k++) {
		if (!str_eqz(kind, files[k].kind))
			continue;
		if (files[k].fn(h, own, &why) != 0) {
			(void)err_wrap(&why, "its %s file", files[k].kind);
			broken(h, why.msg);
		}
		return 0;
	}
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

/* --- all is here -------------------------------------------------------------------------------
 */

static void
check(struct hook *h)
{
	struct err err = {0};

	if (h->conf->url != NULL && webhook_url_parse(str_z(h->conf->url), &h->url, &err) != 0)
		broken(h, err.msg);
	else if (h->url.host[0] == '\0')
		broken(h, "its url file could not be opened");
	else if (h->conf->secret_file != NULL && h->nsecrets == 0)
		broken(h, "its secret file could not be opened");
	else if (h->conf->header_file != NULL && h->header == NULL)
		broken(h, "its header file could not be opened");
	else if (h->conf->ca_file != NULL && h->ca.n == 0)
		broken(h, "its ca file could not be opened, or is empty");
}

int
courier_go(struct courier *c, struct err *err)
{
	if (c->dir < 0)
		return err_set(err, ERR_PROTOCOL, "courier must come first");
	for (size_t i = 0; i < c->nhooks; i++)
		check(&c->hooks[i]);
	for (size_t i = 0; i < c->nwitnesses; i++)
		check(&c->witnesses[i]);
	return courier_http_new(c, err);
}

static void
hook_free(struct hook *h)
{
	courier_http_drop(h);
	loop_timer_del(h->timer);
	for (size_t k = 0; k < h->nsecrets; k++)
		secret_free(h->secrets[k]);
	buf_free(&h->piece);
	buf_free(&h->body);
	buf_free(&h->answer);
	secret_free(h->header);
	buf_free(&h->ca);
}

void
courier_free(struct courier *c)
{
	for (size_t i = 0; i < c->nhooks; i++)
		hook_free(&c->hooks[i]);
	for (size_t i = 0; i < c->nwitnesses; i++)
		hook_free(&c->witnesses[i]);
	courier_http_free(c->http);
	ipc_free(c->writer);
	loop_timer_del(c->save);
	loop_timer_del(c->status);
	webhooks_free(&c->conf);
	webhooks_free(&c->witnesses_conf);
	free(c->witnesses);
	cleanup_close_fd(&c->dir);
	free(c->origin);
	free(c->console);
}
