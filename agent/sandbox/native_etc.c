/*
 * The sandbox's /etc, written new for each one: users, names of the targets, and the
 * certificates of the run. Runs in the child before anything foreign. Nothing is copied
 * from the host's own files, so nothing of them can be learned here.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/banned.h"

int
native_file_write(const char *path, const char *text, mode_t mode, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	size_t n = strlen(text), off = 0;

	while (fd >= 0 && off < n) {
		ssize_t k = write(fd, text + off, n - off);

		if (k < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
		off += k > 0 ? (size_t)k : 0;
	}
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
	return 0;
}

static int
hosts_write(const struct native_spec *spec, struct err *err)
{
	AUTO_BUF struct buf b = BUF(65536);
	AUTO_FREE char *text = NULL;

	buf_put_z(&b, "127.0.0.1 localhost sandbox\n::1 localhost\n");
	for (size_t i = 0; i < spec->ntargets; i++)
		buf_printf(&b, "%s %s\n", spec->targets[i].address, spec->targets[i].host);
	text = buf_dup_z(&b);
	return native_file_write("etc/hosts", text, 0444, err);
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
	static const char *const dirs[] = {"etc/cofferdam", "etc/ssl", "etc/ssl/certs"};
	const char *ca = spec->ca_pem != NULL ? spec->ca_pem : "";
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(files); i++)
		rc = native_file_write(files[i].path, files[i].text, 0444, err);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) != 0 && errno != EEXIST)
			rc = err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", dirs[i]);
	if (rc != 0 || (rc = hosts_write(spec, err)) != 0 ||
	    (rc = native_file_write("etc/cofferdam/ca.pem", ca, 0444, err)) != 0 ||
	    (rc = native_file_write("etc/ssl/certs/ca-certificates.crt", ca, 0444, err)) != 0)
		return rc;
	return 0;
}
