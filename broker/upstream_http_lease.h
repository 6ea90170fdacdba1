/* UH_SEND: what core leased, read and checked; all of it borrowed from the message. */
#ifndef BROKER_UPSTREAM_HTTP_LEASE_H
#define BROKER_UPSTREAM_HTTP_LEASE_H

#include "broker/upstream_address.h"
#include "broker/upstream_scrub_set.h"
#include "common/hash.h"
#include "common/http.h"

/* LEASE_UPGRADE: none; behind a 101 a stream, of `length` bytes at most. */
enum lease_body {
	LEASE_NONE = 0,
	LEASE_INLINE,
	LEASE_SEALED,
	LEASE_STREAM,
	LEASE_CHUNKED,
	LEASE_UPGRADE
};
enum lease_credential {
	LEASE_OPEN = 0,
	LEASE_BEARER,
	LEASE_BASIC,
	LEASE_HEADER,
	LEASE_QUERY,
	LEASE_AWS
};
enum lease_via { LEASE_DIRECT = 0, LEASE_VIA_HTTP, LEASE_VIA_HTTPS, LEASE_VIA_FILES };

struct upstream_lease {
	uint64_t conn, act;
	struct str run;
	bool tls;
	struct str host, address; /* address "": resolve host */
	uint32_t port;
	struct str networks[UPSTREAM_NETS_MAX];
	size_t nnetworks; /* over UPSTREAM_NETS_MAX: the rest is not here, the check fails */
	struct str ca, method, target;
	struct http_field fields[HTTP_FIELDS_MAX];
	size_t nfields;
	enum lease_body body;
	uint64_t length; /* of LEASE_CHUNKED: at most */
	struct str content;
	bool expect, bound, fresh;
	struct hash sha256; /* that the body must have when bound */
	enum lease_credential credential;
	struct str field, user, secret, placeholder;
	struct lease_other {
		struct str secret, user, placeholder; /* user "": none */
	} others[UPSTREAM_OTHERS_MAX];		      /* not sent, and not to come back either */
	size_t nothers;
	uint64_t seal;
	struct str kid, blob_key, wrap; /* the key is this answer's alone; wrap: for the frame */
	enum lease_via via;
	struct str via_host, via_ca, via_user,
	    via_secret; /* via_secret "": the proxy asks for none */
	uint32_t via_port;
};

/* ERR_PROTOCOL: not of that layout. */
int lease_read(struct rd *b, struct upstream_lease *ret, struct err *err);
/* ERR_CONFIG, ERR_UNSUPPORTED: it cannot go out as it is; nothing in *err is secret. */
int lease_check(const struct upstream_lease *l, struct err *err);
/* What its answer may not show: at most SCRUB_SECRETS_MAX. Returns how many. */
size_t lease_secrets(const struct upstream_lease *l, struct scrub_secret *ret);
struct hash lease_hash(const struct upstream_lease *l);
/* "host" or "host:port", an IPv6 address in brackets; without the scheme's own port. */
void lease_authority(const struct upstream_lease *l, struct buf *out);

#endif
