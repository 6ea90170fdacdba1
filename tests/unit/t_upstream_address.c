/* Where a name may lead: a table of addresses, each with its nearest neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "broker/upstream_address.h"

#include "common/banned.h"

static const struct {
	const char *text, *what; /* NULL: public */
} addresses[] = {
    {"8.8.8.8", NULL},
    {"0.0.0.0", "unspecified"},
    {"0.0.0.1", "of this network"},
    {"1.0.0.0", NULL},
    {"9.255.255.255", NULL},
    {"10.0.0.0", "private"},
    {"10.255.255.255", "private"},
    {"11.0.0.0", NULL},
    {"100.63.255.255", NULL},
    {"100.64.0.0", "shared by a carrier"},
    {"100.127.255.255", "shared by a carrier"},
    {"100.128.0.0", NULL},
    {"126.255.255.255", NULL},
    {"127.0.0.1", "loopback"},
    {"127.255.255.255", "loopback"},
    {"128.0.0.0", NULL},
    {"169.253.255.255", NULL},
    {"169.254.169.254", "link-local"},
    {"169.255.0.0", NULL},
    {"172.15.255.255", NULL},
    {"172.16.0.0", "private"},
    {"172.31.255.255", "private"},
    {"172.32.0.0", NULL},
    {"192.0.0.8", "reserved for protocols"},
    {"192.0.1.0", NULL},
    {"192.0.2.1", "documentation"},
    {"192.0.3.0", NULL},
    {"192.88.99.1", "a 6to4 relay"},
    {"192.167.255.255", NULL},
    {"192.168.0.1", "private"},
    {"192.169.0.0", NULL},
    {"198.17.255.255", NULL},
    {"198.18.0.0", "benchmarking"},
    {"198.19.255.255", "benchmarking"},
    {"198.20.0.0", NULL},
    {"198.51.100.7", "documentation"},
    {"203.0.113.7", "documentation"},
    {"203.0.114.0", NULL},
    {"223.255.255.255", NULL},
    {"224.0.0.1", "multicast"},
    {"239.255.255.255", "multicast"},
    {"240.0.0.1", "reserved"},
    {"255.255.255.254", "reserved"},
    {"255.255.255.255", "broadcast"},
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::2", "reserved"},
    {"::8.8.8.8", "reserved"},
    {"::ffff:8.8.8.8", NULL},
    {"::ffff:127.0.0.1", "loopback"},
    {"::ffff:169.254.169.254", "link-local"},
    {"::ffff:10.1.2.3", "private"},
    {"64:ff9b::8.8.8.8", NULL},
    {"64:ff9b::127.0.0.1", "loopback"},
    {"64:ff9b::169.254.169.254", "link-local"},
    {"64:ff9b:1::1", "private"},
    {"100::1", "reserved"},
    {"1fff::1", "reserved"},
    {"2001:0:808:808::f7f7:f7f7", NULL},
    {"2001:0:808:808::5601:5601", "link-local"},
    {"2001:0:a00:1::f7f7:f7f7", "private"},
    {"2001:2::1", "reserved for protocols"},
    {"2001:db8::1", "documentation"},
    {"2001:db7::1", NULL},
    {"2002:808:808::1", NULL},
    {"2002:7f00:1::1", "loopback"},
    {"2002:a9fe:a9fe::1", "link-local"},
    {"2606:4700::1", NULL},
    {"3fff:fff::1", "documentation"},
    {"3fff:1000::1", NULL},
    {"4000::1", "reserved"},
    {"5f00::1", "reserved"},
    {"fbff::1", "reserved"},
    {"fc00::1", "private"},
    {"fd12::1", "private"},
    {"fe00::1", "reserved"},
    {"fe80::1", "link-local"},
    {"febf::1", "link-local"},
    {"fec0::1", "site-local"},
    {"ff02::1", "multicast"},
};

static struct resolve_addr
at(const char *text)
{
	struct resolve_addr a;

	assert_true(resolve_numeric(text, 443, &a));
	return a;
}

static struct upstream_net
net(const char *text)
{
	struct upstream_net n;
	struct err err = {0};

	assert_int_equal(upstream_net_parse(str_z(text), &n, &err), 0);
	return n;
}

static void
only_public_unicast_is_public(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		struct resolve_addr a = at(addresses[i].text);
		const char *is = upstream_address_special(&a), *want = addresses[i].what;

		if (is != want && (is == NULL || want == NULL || strcmp(is, want) != 0))
			fail_msg("%s is %s, must be %s", addresses[i].text,
			    is != NULL ? is : "public", want != NULL ? want : "public");
		assert_int_equal(upstream_address_may(&a, NULL, 0), want == NULL);
		assert_int_equal(upstream_address_is_loopback(&a),
		    want != NULL && strcmp(want, "loopback") == 0);
	}
}

static void
a_network_of_the_lease_opens_itself_and_no_more(void **state UNUSED)
{
	const struct upstream_net nets[] = {
	    net("10.1.0.0/16"), net("fd00::/8"), net("127.0.0.1/32")};
	static const struct {
		const char *text;
		bool may;
	} rows[] = {
	    {"10.1.0.0", true},
	    {"10.1.255.255", true},
	    {"10.2.0.0", false},
	    {"10.0.255.255", false},
	    {"fd00::1", true},
	    {"fc00::1", false},
	    {"127.0.0.1", true},
	    {"127.0.0.2", false},
	    {"::ffff:10.1.2.3", true},
	    {"::ffff:10.2.2.3", false},
	    {"64:ff9b::10.1.2.3", true},
	    {"64:ff9b::10.2.2.3", false},
	    {"2002:a01:1::1", false},
	    {"169.254.169.254", false},
	    {"8.8.8.8", true},
	    {"::1", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct resolve_addr a = at(rows[i].text);

		if (upstream_address_may(&a, nets, ARRAY_LEN(nets)) != rows[i].may)
			fail_msg("%s: must be %d", rows[i].text, rows[i].may);
	}
}

static void
a_network_has_one_spelling(void **state UNUSED)
{
	static const char *const wrong[] = {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33",
	    "10.0.0.0/08", "10.0.0.1/8", "fd00::/129", "fd00::1/8", "10.0.0/8", "name/8", "/8",
	    "10.0.0.0/8 ", "10.0.0.0/-1", "fe80::1%lo/64"};
	static const char *const right[] = {
	    "0.0.0.0/0", "10.0.0.0/8", "10.0.0.1/32", "::/0", "fd00::/8", "fd00::1/128"};
	struct upstream_net n;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct err err = {0};

		if (upstream_net_parse(str_z(wrong[i]), &n, &err) != ERR_INVALID)
			fail_msg("\"%s\" is taken", wrong[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(right); i++)
		if (upstream_net_parse(str_z(right[i]), &n, NULL) != 0)
			fail_msg("\"%s\" is refused", right[i]);
}

static void
an_address_equals_itself_with_its_port(void **state UNUSED)
{
	struct resolve_addr a = at("10.0.0.1"), b = at("10.0.0.1"), c = at("10.0.0.2"), d,
			    e = at("fd00::1"), f = at("fd00::1"), g = at("fd00::2");

	assert_true(resolve_numeric("10.0.0.1", 444, &d));
	assert_true(upstream_address_eq(&a, &b));
	assert_false(upstream_address_eq(&a, &c));
	assert_false(upstream_address_eq(&a, &d));
	assert_false(upstream_address_eq(&a, &e));
	assert_true(upstream_address_eq(&e, &f));
	assert_false(upstream_address_eq(&e, &g));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_public_unicast_is_public),
	    cmocka_unit_test(a_network_of_the_lease_opens_itself_and_no_more),
	    cmocka_unit_test(a_network_has_one_spelling),
	    cmocka_unit_test(an_address_equals_itself_with_its_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
