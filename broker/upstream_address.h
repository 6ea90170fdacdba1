/*
 * Which addresses a name may lead to. A target is given by name, and who answers for the name
 * chooses the address: loopback, the local network and the metadata service must not be reached
 * that way. Pure.
 */
#ifndef BROKER_UPSTREAM_ADDRESS_H
#define BROKER_UPSTREAM_ADDRESS_H

#include "broker/upstream_resolve.h"

#define UPSTREAM_NETS_MAX 256

struct upstream_net {
	sa_family_t family;
	uint8_t bytes[16];
	unsigned bits;
};

/* "10.0.0.0/8", "fd00::/8"; no bit may be set behind the length. */
int upstream_net_parse(struct str cidr, struct upstream_net *ret, struct err *err);
/*
 * NULL: public unicast (IANA special-purpose registries, RFC 6890). Else what it is: "loopback",
 * "private", ... An IPv6 address that stands for an IPv4 address (mapped; NAT64, RFC 6052; 6to4;
 * Teredo) is judged as that.
 */
const char *upstream_address_special(const struct resolve_addr *a);
/* Public, or within one of the networks. */
bool upstream_address_may(const struct resolve_addr *a, const struct upstream_net *nets, size_t n);
bool upstream_address_is_loopback(const struct resolve_addr *a);
/* The same address and port. */
bool upstream_address_eq(const struct resolve_addr *a, const struct resolve_addr *b);

#endif
