/*
 * Reads the spec that the caller sent. Runs in cofferdam-sandbox before any namespace is
 * made. The caller is the same user and started us, so this guards against mistakes and a
 * wrong version, not against an attacker; the rules of form stand in sandbox_spec.c.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>

#include "common/banned.h"

static char *
take_z(struct rd *r)
{
	struct str s = rd_lstr(r);

	if (memchr(s.n != 0 ? s.p : "", '\0', s.n) != NULL)
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

int
native_spec_decode(struct str body, struct native_spec *s, struct err *err)
{
	struct rd r = rd_init(body);
	uint32_t n;

	*s = (struct native_spec){0};
	s->limits_optional = rd_u8(&r) == 1;
	s->limits = (struct sandbox_limits){.wall_s = rd_u32(&r)};
	s->limits.cpu_percent = rd_u32(&r);
	s->limits.memory_mib = rd_u32(&r);
	s->limits.pids = rd_u32(&r);
	s->limits.output_mib = rd_u32(&r);
	s->limits.workspace_mib = rd_u32(&r);
	s->workspace = take_z(&r);
	s->ca_pem = take_z(&r);
	s->ca_hash = take_z(&r);
	s->roots_pem = take_z(&r);
	s->keystore = take_bytes(&r);
	n = rd_u32(&r);
	if (n > SANDBOX_BINDS_MAX)
		return err_set(err, ERR_PROTOCOL, "sandbox: spec with %u binds", n);
	for (s->nbinds = 0; s->nbinds < n; s->nbinds++) {
		s->binds[s->nbinds].host_path = need_z(&r);
		s->binds[s->nbinds].inside = need_z(&r);
	}
	n = rd_u32(&r);
	if (n > SANDBOX_TARGETS_MAX)
		return err_set(err, ERR_PROTOCOL, "sandbox: spec with %u targets", n);
	for (s->ntargets = 0; s->ntargets < n; s->ntargets++) {
		s->targets[s->ntargets].host = take_z(&r);
		s->targets[s->ntargets].address = need_z(&r);
		s->targets[s->ntargets].port = rd_u16(&r);
	}
	if (!rd_end(&r) || s->limits.memory_mib == 0 || s->limits.pids == 0 ||
	    s->limits.wall_s == 0 || s->limits.cpu_percent == 0)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed spec");
	return 0;
}

int
native_missing(struct err *err, int errnum, const char *layer, const char *fix)
{
	return err_set(err, ERR_UNAVAILABLE, "sandbox: %s cannot be had (%s): %s", layer,
	    errnum != 0 ? strerror(errnum) : "not there", fix);
}

int
native_slurp(const char *path, struct buf *out, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	for (;;) {
		uint8_t room[4096];
		ssize_t k = read(fd, room, sizeof(room));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s", path);
		if (k == 0)
			break;
		buf_put(out, room, (size_t)k);
	}
	if (buf_over(out))
		return err_set(err, ERR_TOO_LARGE, "%s: larger than %zu bytes", path, out->max);
	return 0;
}
