/*
 * The sandbox's /etc, the same for each back end: users, names of the targets, and the
 * certificates of the run. Runs in the supervisor before anything foreign. Nothing is copied
 * from the host's own files, so nothing of them can be learned there.
 */
#include "agent/sandbox/backend.h"

#include "common/banned.h"

struct etc {
	const struct super_spec *spec;
	backend_file_fn *file;
	backend_link_fn *link;
	void *arg;
};

/*
 * The run's CA alone, and the bundle where OpenSSL, GnuTLS, Go and the rest look when no variable
 * says otherwise. Debian's Java has its keystore among these.
 */
static int
trust_put(const struct etc *e, struct err *err)
{
	const struct super_spec *s = e->spec;
	struct str ca = str_z(s->ca_pem);
	AUTO_BUF struct buf all = BUF(2 * SANDBOX_TRUST_MAX + 1);
	char hashed[] = "etc/ssl/certs/00000000.0";
	int rc;

	buf_put_str(&all, ca);
	if (ca.n != 0 && ca.p[ca.n - 1] != '\n')
		buf_put_c(&all, '\n');
	buf_put_z(&all, s->roots_pem != NULL ? s->roots_pem : "");
	/* Without bytes it would look like a directory. */
	if (ca.n == 0)
		ca = STR("");
	if ((rc = e->file(e->arg, "etc/cofferdam/ca.pem", ca, err)) != 0 ||
	    (rc = e->file(e->arg, "etc/ssl/certs/ca-certificates.crt",
		 all.n != 0 ? buf_str(&all) : STR(""), err)) != 0 ||
	    (rc = e->link(e->arg, "etc/ssl/cert.pem", "certs/ca-certificates.crt", err)) != 0 ||
	    (rc = e->link(e->arg, "etc/pki/tls/certs/ca-bundle.crt",
		 "/etc/ssl/certs/ca-certificates.crt", err)) != 0)
		return rc;
	if (s->keystore.n != 0 &&
	    (rc = e->file(e->arg, "etc/ssl/certs/java/cacerts", s->keystore, err)) != 0)
		return rc;
	if (s->ca_hash == NULL || strlen(s->ca_hash) != 8)
		return 0;
	memcpy(hashed + strlen("etc/ssl/certs/"), s->ca_hash, 8);
	return e->link(e->arg, hashed, "/etc/cofferdam/ca.pem", err);
}

static int
hosts_put(const struct etc *e, struct err *err)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	backend_hosts_text(e->spec->targets, e->spec->ntargets, &b);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "sandbox: /etc/hosts over %zu bytes", b.max);
	return e->file(e->arg, "etc/hosts", buf_str(&b), err);
}

int
backend_etc(const struct super_spec *s, backend_file_fn *file, backend_link_fn *link, void *arg,
    struct err *err)
{
	static const struct {
		const char *path, *text;
	} rows[] = {
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
	    {"etc/cofferdam", NULL},
	    {"etc/ssl", NULL},
	    {"etc/ssl/certs", NULL},
	    {"etc/ssl/certs/java", NULL},
	    {"etc/pki", NULL},
	    {"etc/pki/tls", NULL},
	    {"etc/pki/tls/certs", NULL},
	};
	const struct etc e = {s, file, link, arg};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rows); i++)
		rc = file(arg, rows[i].path, str_z(rows[i].text), err);
	if (rc != 0 || (rc = hosts_put(&e, err)) != 0)
		return rc;
	return trust_put(&e, err);
}
