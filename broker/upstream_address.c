/*
 * Addresses that a resolved name may have. Runs in upstream. DNS is not trusted: a name that anyone
 * can register may point anywhere (DNS rebinding), so what is not known to be public is refused.
 */
#include "broker/upstream_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "common/banned.h"

struct range {
	uint8_t bytes[16];
	uint8_t bits;
	const char *what;
};

static const struct range v4_special[] = {
    {{0, 0, 0, 0}, 32, "unspecified"},
    {{0}, 8, "of this network"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "shared by a carrier"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved for protocols"},
    {{192, 0, 2}, 24, "documentation"},
    {{192, 88, 99}, 24, "a 6to4 relay"},
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "benchmarking"},
    {{198, 51, 100}, 24, "documentation"},
    {{203, 0, 113}, 24, "documentation"},
    {{224}, 4, "multicast"},
    {{255, 255, 255, 255}, 32, "broadcast"},
    {{240}, 4, "reserved"},
};

/* 2000::/3 alone is handed out; what stands here is told by its name, the rest as reserved. */
static const struct range v6_special[] = {
    {{0}, 128, "unspecified"},
    {{[15] = 1}, 128, "loopback"},
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48, "private"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    {{0x20, 0x01}, 23, "reserved for protocols"},
    {{0x3f, 0xff}, 20, "documentation"},
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "site-local"},
    {{0xff}, 8, "multicast"},
};
static const struct range v6_global = {{0x20}, 3, NULL};

/* Where an IPv4 address stands in an IPv6 address: prefix, first byte, inverted or not. */
static const struct {
	struct range prefix;
	uint8_t at;
	bool inverted;
} embedded[] = {
    {{{[10] = 0xff, 0xff}, 96, NULL}, 12, false},   /* mapped */
    {{{0, 0x64, 0xff, 0x9b}, 96, NULL}, 12, false}, /* NAT64 */
    {{{0x20, 0x02}, 16, NULL}, 2, false},	    /* 6to4 */
    {{{0x20, 0x01, 0, 0}, 32, NULL}, 4, false},	    /* Teredo: the server */
    {{{0x20, 0x01, 0, 0}, 32, NULL}, 12, true},	    /* Teredo: the client */
};

static bool
within(const uint8_t *a, const uint8_t *net, unsigned bits)
{
	uint8_t mask = (uint8_t)(0xff00 >> bits % 8);

	if (memcmp(a, net, bits / 8) != 0)
		return false;
	return bits % 8 == 0 || ((a[bits / 8] ^ net[bits / 8]) & mask) == 0;
}

static const char *
find(const struct range *r, size_t n, const uint8_t *a)
{
	for (size_t i = 0; i < n; i++)
		if (within(a, r[i].bytes, r[i].bits))
			return r[i].what;
	return NULL;
}

/* The address's bytes, in network order. */
static const uint8_t *
bytes_of(const struct resolve_addr *a)
{
	return a->sa.ss_family == AF_INET
		   ? (const uint8_t *)&((const struct sockaddr_in *)&a->sa)->sin_addr
		   : (const uint8_t *)&((const struct sockaddr_in6 *)&a->sa)->sin6_addr;
}

/* The i-th IPv4 address that an IPv6 address stands for. */
static bool
embedded_in(const uint8_t *v6, size_t i, uint8_t v4[4])
{
	if (!within(v6, embedded[i].prefix.bytes, embedded[i].prefix.bits))
		return false;
	for (size_t k = 0; k < 4; k++)
		v4[k] = embedded[i].inverted ? (uint8_t)~v6[embedded[i].at + k]
					     : v6[embedded[i].at + k];
	return true;
}

const char *
upstream_address_special(const struct resolve_addr *a)
{
	const uint8_t *p = bytes_of(a);
	const char *what;
	bool stands_for = false;
	uint8_t v4[4];

	if (a->sa.ss_family == AF_INET)
		return find(v4_special, ARRAY_LEN(v4_special), p);
	if (a->sa.ss_family != AF_INET6)
		return "of an unknown family";
	for (size_t i = 0; i < ARRAY_LEN(embedded); i++) {
		if (!embedded_in(p, i, v4))
			continue;
		stands_for = true;
		what = find(v4_special, ARRAY_LEN(v4_special), v4);
		if (what != NULL)
			return what;
	}
	if (stands_for)
		return NULL;
	what = find(v6_special, ARRAY_LEN(v6_special), p);
	if (what != NULL)
		return what;
	return within(p, v6_global.bytes, v6_global.bits) ? NULL : "reserved";
}

/* An IPv6 address is also in a network of IPv4 when that is what it stands for. */
static bool
in_net(const struct resolve_addr *a, const struct upstream_net *net)
{
	const uint8_t *p = bytes_of(a);
	uint8_t v4[4];

	if (a->sa.ss_family == net->family)
		return within(p, net->bytes, net->bits);
	if (a->sa.ss_family != AF_INET6)
		return false;
	/* Mapped and NAT64: there is one address, and it is all of it. */
	for (size_t i = 0; i < 2; i++)
		if (embedded_in(p, i, v4))
			return within(v4, net->bytes, net->bits);
	return false;
}

bool
upstream_address_may(const struct resolve_addr *a, const struct upstream_net *nets, size_t n)
{
	if (upstream_address_special(a) == NULL)
		return true;
	if (a->sa.ss_family != AF_INET && a->sa.ss_family != AF_INET6)
		return false;
	for (size_t i = 0; i < n; i++)
		if (in_net(a, &nets[i]))
			return true;
	return false;
}

bool
upstream_address_is_loopback(const struct resolve_addr *a)
{
	const char *what = upstream_address_special(a);

	return what != NULL && strcmp(what, "loopback") == 0;
}

bool
upstream_address_eq(const struct resolve_addr *a, const struct resolve_addr *b)
{
	if (a->sa.ss_family != b->sa.ss_family)
		return false;
	if (a->sa.ss_family == AF_INET) {
		const struct sockaddr_in *x = (const struct sockaddr_in *)&a->sa;
		const struct sockaddr_in *y = (const struct sockaddr_in *)&b->sa;

		return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
	}
	if (a->sa.ss_family == AF_INET6) {
		const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)&a->sa;
		const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)&b->sa;

		return x->sin6_port == y->sin6_port && x->sin6_scope_id == y->sin6_scope_id &&
		       memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
	}
	return false;
}

int
upstream_net_parse(struct str cidr, struct upstream_net *ret, struct err *err)
{
	struct str text = cidr, host;
	AUTO_FREE char *z = NULL;
	struct upstream_net net = {0};
	struct resolve_addr a;
	uint64_t bits;
	size_t len;

	if (!str_cut(&text, '/', &host))
		return err_set(err, ERR_INVALID, "network \"%.*s\" has no length", STR_ARG(cidr));
	z = str_dup(host);
	if (strlen(z) != host.n || !resolve_numeric(z, 0, &a))
		return err_set(
		    err, ERR_INVALID, "network \"%.*s\": not a numeric address", STR_ARG(cidr));
	net.family = a.sa.ss_family;
	len = net.family == AF_INET ? 4 : 16;
	memcpy(net.bytes, bytes_of(&a), len);
	if (!str_to_u64(text, 8 * len, &bits))
		return err_set(err, ERR_INVALID, "network \"%.*s\": length must be 0 to %zu",
		    STR_ARG(cidr), 8 * len);
	net.bits = (unsigned)bits;
	for (size_t i = net.bits; i < 8 * len; i++)
		if ((net.bytes[i / 8] & 0x80 >> i % 8) != 0)
			return err_set(err, ERR_INVALID,
			    "network \"%.*s\": bits are set behind its length", STR_ARG(cidr));
	*ret = net;
	return 0;
}
