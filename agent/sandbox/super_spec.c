/*
 * Reads the spec that the caller sent; its layout stands at sandbox_spec_encode. Runs in the
 * supervisor before anything is made. The caller is the same user and started us, so this guards
 * against mistakes and another version, not against an attacker; the rules of form stand in
 * sandbox_spec.c. Only the name is checked again, since a file is called by it.
 */
#include "agent/sandbox/backend.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "agent/sandbox/call.h"

#include "common/banned.h"

static char *
take_z(struct rd *r)
{
	struct str s = rd_lstr(r);

	if (s.n != 0 && memchr(s.p, '\0', s.n) != NULL)
		r->bad = true;
	return s.n != 0 ? str_dup(s) : NULL;
}

static struct str
take_bytes(struct rd *r)
{
	struct str s = rd_lstr(r);

	return s.n != 0 ? (struct str){.p = str_dup(s), .n = s.n} : STR_NONE;
}

/* A string that must be there. */
static char *
need_z(struct rd *r)
{
	char *p = take_z(r);

	if (p == NULL)
		r->bad = true;
	return p;
}

static char **
take_list(struct rd *r, uint32_t max)
{
	uint32_t n = rd_u32(r);
	char **list;

	if (r->bad || n > max) {
		r->bad = true;
		return NULL;
	}
	list = xcalloc((size_t)n + 1, sizeof(*list));
	for (uint32_t i = 0; i < n && !r->bad; i++)
		list[i] = need_z(r);
	return list;
}

static void
limits_take(struct rd *r, struct sandbox_limits *l)
{
	uint32_t *const at[] = {&l->wall_s, &l->cpu_percent, &l->memory_mib, &l->pids,
	    &l->output_mib, &l->workspace_mib, &l->open_files, &l->linger_s};

	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		if ((*at[i] = rd_u32(r)) == 0)
			r->bad = true;
}

static void
texts_take(struct rd *r, struct super_spec *s)
{
	char **const at[] = {&s->backend, &s->name, &s->image, &s->workspace, &s->ca_pem,
	    &s->ca_hash, &s->roots_pem};

	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		*at[i] = take_z(r);
	s->keystore = take_bytes(r);
}

static void
lists_take(struct rd *r, struct super_spec *s)
{
	uint32_t n;

	s->labels = take_list(r, SANDBOX_LABELS_MAX);
	n = rd_u32(r);
	for (; s->nbinds < n && !r->bad; s->nbinds++) {
		if (s->nbinds == SANDBOX_BINDS_MAX) {
			r->bad = true;
			return;
		}
		s->binds[s->nbinds].host_path = need_z(r);
		s->binds[s->nbinds].inside = need_z(r);
	}
	n = rd_u32(r);
	for (; s->ntargets < n && !r->bad; s->ntargets++) {
		if (s->ntargets == SANDBOX_TARGETS_MAX) {
			r->bad = true;
			return;
		}
		s->targets[s->ntargets].host = take_z(r);
		s->targets[s->ntargets].address = need_z(r);
		s->targets[s->ntargets].port = rd_u16(r);
	}
	s->env = take_list(r, SANDBOX_ENV_MAX + 64);
}

static bool
name_is_good(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= 40 && name[0] != '-' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int
super_spec_decode(struct str body, struct super_spec *ret, struct err *err)
{
	struct super_spec s = {0};
	struct rd r = rd_init(body);
	unsigned version = rd_u8(&r), bits;

	if (!r.bad && version != CALL_VERSION)
		return err_set(err, ERR_PROTOCOL,
		    "sandbox: the caller speaks version %u, the supervisor %d: install both from "
		    "one release",
		    version, CALL_VERSION);
	bits = rd_u8(&r);
	s.overlay = (bits & 1) != 0;
	s.tied = (bits & 2) != 0;
	s.home = (bits & 4) != 0;
	s.may_lack = rd_u32(&r);
	limits_take(&r, &s.limits);
	texts_take(&r, &s);
	lists_take(&r, &s);
	if (!rd_end(&r) || bits > 7) {
		super_spec_free(&s);
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed spec");
	}
	if (s.name != NULL && !name_is_good(s.name)) {
		(void)err_set(err, ERR_INVALID,
		    "sandbox: name \"%s\" is not 1 to 40 of a-z, 0-9 and '-', not first", s.name);
		super_spec_free(&s);
		return ERR_INVALID;
	}
	*ret = s;
	return 0;
}

static void
list_free(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

void
super_spec_free(struct super_spec *s)
{
	free(s->backend);
	free(s->name);
	free(s->image);
	free(s->workspace);
	free(s->ca_pem);
	free(s->ca_hash);
	free(s->roots_pem);
	free((void *)(uintptr_t)s->keystore.p);
	list_free(s->labels);
	list_free(s->env);
	/* One that was being read when the text ended is not counted yet. */
	for (size_t i = 0; i < SANDBOX_BINDS_MAX; i++) {
		free(s->binds[i].host_path);
		free(s->binds[i].inside);
	}
	for (size_t i = 0; i < SANDBOX_TARGETS_MAX; i++) {
		free(s->targets[i].host);
		free(s->targets[i].address);
	}
	*s = (struct super_spec){0};
}
