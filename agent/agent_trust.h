/* What programs in a sandbox trust: the run's CA beside the public authorities of this machine. */
#ifndef AGENT_AGENT_TRUST_H
#define AGENT_AGENT_TRUST_H

#include "common/buf.h"
#include "common/err.h"

struct agent_trust {
	char *roots_pem;     /* this machine's bundle; NULL: there is none */
	char ca_hash[9];     /* OpenSSL's name hash of the CA */
	struct buf keystore; /* both as PKCS #12 with the password "changeit", for Java */
};

/* ERR_CRYPTO: ca_pem is no certificate. A bundle that cannot be read is left out with a warning. */
int agent_trust_load(const char *ca_pem, struct agent_trust *ret, struct err *err);
void agent_trust_free(struct agent_trust *t);

#endif
