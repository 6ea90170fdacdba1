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
	log_error("webhook %s: %s: nothing is sent there", h->conf->name, why);
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

int
courier_config(struct courier *c, const struct json *config, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf text = BUF((size_t)128 << 10);
	struct str origin = json_str(json_get(config, "origin"));
	struct jcs j;
	int rc;

	if (origin.n == 0 || origin.n > 200)
		return err_set(err, ERR_CONFIG, "origin is missing");
	c->origin = str_dup(origin);
	c->console = str_dup(json_str(json_get(config, "console")));
	/* Read from a document of its own, whose places the messages name. */
	jcs_init(&j, &text);
	rc = jcs_value(&j, NULL, json_get(config, "webhooks"), err);
	if (rc == 0)
		rc = json_parse(buf_str(&text), "webhooks", &doc, err);
	if (rc == 0)
		rc = webhooks_parse(doc, json_root(doc), &c->conf, err);
	if (rc != 0)
		return rc;
	c->nhooks = c->conf.n;
	for (size_t i = 0; i < c->nhooks; i++) {
		struct hook *h = &c->hooks[i];

		h->c = c;
		h->i = (uint32_t)i;
		h->conf = &c->conf.v[i];
		h->next = h->conf->from_first ? 0 : COURIER_START;
		buf_init(&h->piece, (size_t)1 << 19);
		buf_init(&h->body, h->conf->otlp ? COURIER_OTLP_MAX : COURIER_BODY_MAX);
		buf_init(&h->answer, COURIER_ANSWER_MAX);
		h->batch_max = UINT32_MAX;
		buf_init(&h->ca, CA_MAX);
		nets_read(h);
	}
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

int
courier_fd(struct courier *c, struct str name, int fd, struct err *err)
{
	AUTO_FD int own = fd;
	struct str rest = name, kind;
	struct err why = {0};

	if (str_eqz(name, "courier") && c->dir < 0) {
		c->dir = TAKE_FD(own);
		return 0;
	}
	if (!str_cut(&rest, ':', &kind))
		return err_set(err, ERR_PROTOCOL, "not expected here");
	for (size_t i = 0; i < c->nhooks; i++)
		for (size_t k = 0; k < ARRAY_LEN(files); k++) {
			struct hook *h = &c->hooks[i];

			if (!str_eqz(rest, h->conf->name) || !str_eqz(kind, files[k].kind))
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
	return courier_http_new(c, err);
}

void
courier_free(struct courier *c)
{
	for (size_t i = 0; i < c->nhooks; i++) {
		struct hook *h = &c->hooks[i];

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
	courier_http_free(c->http);
	ipc_free(c->writer);
	loop_timer_del(c->save);
	loop_timer_del(c->status);
	webhooks_free(&c->conf);
	cleanup_close_fd(&c->dir);
	free(c->origin);
	free(c->console);
}
