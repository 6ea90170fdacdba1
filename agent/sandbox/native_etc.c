/*
 * The sandbox's /etc, written new for each one: users, names of the targets, and the
 * certificates of the run. Runs in the child before anything foreign. Nothing is copied
 * from the host's own files, so nothing of them can be learned here.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/banned.h"

int
native_file_write(const char *path, struct str content, mode_t mode, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	size_t off = 0;

	while (fd >= 0 && off < content.n) {
		ssize_t k = write(fd, content.p + off, content.n - off);

		if (k < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
		off += k > 0 ? (size_t)k : 0;
	}
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
	return 0;
}

/* A name that several targets share stands once with each of its addresses. */
static bool
named_before(const struct native_spec *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (s->targets[k].host != NULL &&
		    strcmp(s->targets[k].host, s->targets[i].host) == 0 &&
		    strcmp(s->targets[k].address, s->targets[i].address) == 0)
			return true;
	return false;
}

static int
hosts_write(const struct native_spec *spec, struct err *err)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_put_z(&b, "127.0.0.1 localhost sandbox\n::1 localhost\n");
	for (size_t i = 0; i < spec->ntargets; i++)
		if (spec->targets[i].host != NULL && !named_before(spec, i))
			buf_printf(&b, "%s %s\n", spec->targets[i].address, spec->targets[i].host);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "sandbox: /etc/hosts over %zu bytes", b.max);
	return native_file_write("etc/hosts", buf_str(&b), 0444, err);
}

static int
link_make(const char *to, const char *at, struct err *err)
{
	if (symlink(to, at) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", at);
	return 0;
}

/*
 * The run's CA alone, and the bundle where OpenSSL, GnuTLS, Go and the rest look when no variable
 * says otherwise. Debian's Java has its keystore among these.
 */
static int
trust_write(const struct native_spec *spec, struct err *err)
{
	struct str ca = str_z(spec->ca_pem);
	AUTO_BUF struct buf all = BUF(2 * SANDBOX_TRUST_MAX + 1);
	char hashed[] = "etc/ssl/certs/00000000.0";
	int rc;

	buf_put_str(&all, ca);
	if (ca.n != 0 && ca.p[ca.n - 1] != '\n')
		buf_put_c(&all, '\n');
	buf_put_z(&all, spec->roots_pem != NULL ? spec->roots_pem : "");
	if ((rc = native_file_write("etc/cofferdam/ca.pem", ca, 0444, err)) != 0 ||
	    (rc = native_file_write(
		 "etc/ssl/certs/ca-certificates.crt", buf_str(&all), 0444, err)) != 0 ||
	    (rc = link_make("certs/ca-certificates.crt", "etc/ssl/cert.pem", err)) != 0 ||
	    (rc = link_make("/etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt",
		 err)) != 0)
		return rc;
	if (spec->keystore.n != 0 &&
	    (rc = native_file_write("etc/ssl/certs/java/cacerts", spec->keystore, 0444, err)) != 0)
		return rc;
	if (spec->ca_hash == NULL || strlen(spec->ca_hash) != 8)
		return 0;
	memcpy(hashed + strlen("etc/ssl/certs/"), spec->ca_hash, 8);
	return link_make("/etc/cofferdam/ca.pem", hashed, err);
}

int
native_etc_write(const struct native_spec *spec, struct err *err)
{
	static const struct {
		const char *path, *text;
	} files[] = {
	    {"etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
			   "agent:x:1000:1000:agent:/work:/bin/bash\n"
			   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	    {"etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
	    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\n"
				  "protocols: files\n"},
	    {"etc/resolv.conf", "# no name service: the names of the targets are in /etc/hosts\n"},
	    {"etc/host.conf", "multi on\n"},
	    {"etc/hostname", "sandbox\n"},
	    {"etc/shells", "/bin/sh\n/bin/bash\n"},
	};
	static const char *const dirs[] = {"etc/cofferdam", "etc/ssl", "etc/ssl/certs",
	    "etc/ssl/certs/java", "etc/pki", "etc/pki/tls", "etc/pki/tls/certs"};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(files); i++)
		rc = native_file_write(files[i].path, str_z(files[i].text), 0444, err);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) != 0 && errno != EEXIST)
			rc = err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", dirs[i]);
	if (rc != 0 || (rc = hosts_write(spec, err)) != 0)
		return rc;
	return trust_write(spec, err);
}
