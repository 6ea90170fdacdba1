/*
 * Bundles by which a log's actions were judged: from the sealed copy, or from the state directory
 * under their digest. Runs as the reviewer. What has another digest is no policy.
 */
#include "cmd/cmd_replay_policies.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>

#include "audit/canon.h"
#include "cmd/cmd_file.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define POLICY_MAX ((size_t)8 << 20)

/* A policy of the log, by its digest. */
struct loaded {
	struct loaded *next;
	char digest[HASH_HEX_SIZE];
	char *bundle;	       /* the reference, until it has been tried */
	struct policy *policy; /* NULL: see why */
	struct err why;
};

struct replay_policies {
	struct replay_blobs *blobs;
	int statedir;
	struct loaded *loaded;
};

struct replay_policies *
replay_policies_new(struct replay_blobs *blobs, int statedir)
{
	struct replay_policies *p = xcalloc(1, sizeof(*p));

	p->blobs = blobs;
	p->statedir = statedir;
	return p;
}

void
replay_policies_free(struct replay_policies *p)
{
	while (p != NULL && p->loaded != NULL) {
		struct loaded *l = p->loaded;

		p->loaded = l->next;
		policy_free(l->policy);
		free(l->bundle);
		free(l);
	}
	free(p);
}

static int
load(const struct replay_policies *p, const struct loaded *l, struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_MAX);
	char path[HASH_HEX_SIZE + 32], hex[HASH_HEX_SIZE];
	struct hash h;
	int r = replay_blobs_read(p->blobs, str_z(l->bundle), &text, err);

	if (r != 0 && p->statedir >= 0) {
		(void)snprintf(path, sizeof(path), "policy/%s.json", l->digest);
		buf_reset(&text);
		if (file_read(p->statedir, path, &text, NULL) == 0)
			r = 0;
	}
	if (r != 0)
		return r;
	h = hash_sha256(buf_str(&text));
	hash_hex(&h, hex);
	if (strcmp(hex, l->digest) != 0)
		return err_set(
		    err, ERR_TAMPER, "policy %s: the bundle has another digest", l->digest);
	return policy_load(buf_str(&text), ret, err);
}

void
replay_policies_take(struct replay_policies *p, const struct record *r)
{
	struct str digest = canon_plain(canon_get(r->data, "digest"));
	struct loaded *l;

	if (digest.n != HASH_HEX_SIZE - 1)
		return;
	for (l = p->loaded; l != NULL; l = l->next)
		if (str_eqz(digest, l->digest))
			return;
	l = xcalloc(1, sizeof(*l));
	memcpy(l->digest, digest.p, digest.n);
	l->bundle = str_dup(canon_get(r->data, "bundle"));
	l->next = p->loaded;
	p->loaded = l;
}

const struct policy *
replay_policies_get(struct replay_policies *p, struct str digest, const char **why)
{
	for (struct loaded *l = p->loaded; l != NULL; l = l->next) {
		if (!str_eqz(digest, l->digest))
			continue;
		if (l->bundle != NULL) {
			(void)load(p, l, &l->policy, &l->why);
			free(TAKE_PTR(l->bundle));
		}
		*why = l->policy == NULL ? l->why.msg : NULL;
		return l->policy;
	}
	*why = "the log holds no policy of this digest";
	return NULL;
}

int
replay_policy_load(const char *path, struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_MAX), warnings = BUF(65536);
	AUTO_FREE char *copy = xstrdup(path);
	int r = file_read(AT_FDCWD, path, &text, err);

	if (r != 0)
		return r;
	if (policy_load(buf_str(&text), ret, NULL) == 0)
		return 0;
	if (policy_parse(buf_str(&text), path, dirname(copy), NULL, ret, &warnings, err) != 0) {
		err->code = ERR_CONFIG;
		return ERR_CONFIG;
	}
	return 0;
}
