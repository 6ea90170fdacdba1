/* Names: hosts file, localhost, numbers, and DNS against a server of the test's own. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "broker/upstream_resolve.h"
#include "common/cleanup.h"

#include "common/banned.h"

static struct loop *loop;
static struct resolver *r;
static int dns = -1;
static struct loop_io *dns_io;
static int questions;
static char got[256];
static int calls;

static const char hosts[] = "127.0.0.1\tlocalhost\n"
			    "# 10.9.9.9 commented\n"
			    "10.0.0.5  db.internal  db # 10.9.9.9 tail\n"
			    "fd00::5\tDB.internal\n"
			    "not-an-address bad.internal\n"
			    "10.0.0.7 last.internal";

/* Answers each A question for *.good with 192.0.2.1 and everything else with "no such name". */
static void
on_question(void *arg, uint32_t events)
{
	uint8_t b[600];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(dns, b, 512, 0, (struct sockaddr *)&from, &len);
	static const uint8_t a[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1};
	size_t end = 12;

	(void)arg;
	(void)events;
	if (n < 17)
		return;
	questions++;
	while (end < (size_t)n && b[end] != 0)
		end += (size_t)b[end] + 1;
	end += 5; /* the root label, type, class */
	b[2] = 0x81;
	b[3] = 0x80;
	memset(b + 8, 0, 4);
	if (memmem(b, end, "\4good", 5) == NULL) {
		b[3] = 0x83;
		b[7] = 0;
	} else if (b[end - 3] == 1) {
		b[7] = 1;
		memcpy(b + end, a, sizeof(a));
		if (memmem(b, end, "\5brief", 6) != NULL)
			b[end + 9] = 0; /* its time to live */
		end += sizeof(a);
	} else {
		b[7] = 0;
	}
	(void)sendto(dns, b, end, 0, (struct sockaddr *)&from, len);
}

static int
set_up(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	char path[] = "/tmp/t_resolve.XXXXXX", csv[64];
	AUTO_FD int fd = mkstemp(path);
	struct err err = {0};

	(void)state;
	assert_int_equal(write(fd, hosts, sizeof(hosts) - 1), sizeof(hosts) - 1);
	loop = loop_new();
	assert_int_equal(resolver_new(loop, path, &r, &err), 0);
	(void)unlink(path);
	dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(dns, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(dns, (struct sockaddr *)&a, &len), 0);
	dns_io = loop_io_add(loop, dns, EPOLLIN, on_question, NULL);
	(void)snprintf(csv, sizeof(csv), "127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(resolver_servers(r, csv, &err), 0);
	questions = calls = 0;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	resolver_free(r);
	loop_io_del(dns_io);
	(void)close(dns);
	loop_free(loop);
	return 0;
}

static void
on_addresses(void *arg, const struct resolve_addr *addrs, size_t n, const char *why)
{
	size_t at = 0;

	(void)arg;
	calls++;
	got[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		char one[64];

		resolve_text(&addrs[i], one, sizeof(one));
		at += (size_t)snprintf(got + at, sizeof(got) - at, "%s%s", at != 0 ? " " : "", one);
	}
	if (n == 0)
		(void)snprintf(got, sizeof(got), "none: %s", why);
	loop_stop(loop, 0);
}

static void
give_up(void *arg)
{
	(void)arg;
	loop_stop(loop, 1);
}

static const char *
ask(const char *host)
{
	struct loop_timer *t = loop_timer_add(loop, 10000, give_up, NULL);
	int before = calls;

	(void)resolver_ask(r, host, 5432, on_addresses, NULL);
	assert_int_equal(calls, before); /* never from inside */
	assert_int_equal(loop_run(loop), 0);
	loop_timer_del(t);
	return got;
}

static void
numbers_and_the_hosts_file_need_no_dns(void **state)
{
	(void)state;
	assert_string_equal(ask("10.1.2.3"), "10.1.2.3:5432");
	assert_string_equal(ask("::1"), "[::1]:5432");
	assert_string_equal(ask("localhost"), "127.0.0.1:5432");
	assert_string_equal(ask("db.internal"), "10.0.0.5:5432 [fd00::5]:5432");
	assert_string_equal(ask("DB"), "10.0.0.5:5432");
	assert_string_equal(ask("last.internal"), "10.0.0.7:5432");
	assert_int_equal(questions, 0);
}

static void
what_the_hosts_file_does_not_say_goes_to_dns(void **state)
{
	(void)state;
	assert_string_equal(ask("db.good"), "192.0.2.1:5432");
	assert_true(questions > 0);
	assert_non_null(strstr(ask("commented"), "none: "));
	assert_non_null(strstr(ask("bad.internal"), "none: "));
	assert_non_null(strstr(ask("db.internal.evil"), "none: "));
}

static void
an_answer_is_used_again_while_it_lives(void **state)
{
	int asked;

	(void)state;
	assert_string_equal(ask("db.good"), "192.0.2.1:5432");
	asked = questions;
	assert_string_equal(ask("DB.good"), "192.0.2.1:5432");
	assert_int_equal(questions, asked);
	(void)resolver_ask(r, "db.good", 443, on_addresses, NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(got, "192.0.2.1:443");
	assert_int_equal(questions, asked);
	assert_string_equal(ask("brief.good"), "192.0.2.1:5432");
	asked = questions;
	assert_string_equal(ask("brief.good"), "192.0.2.1:5432");
	assert_true(questions > asked);
	assert_non_null(strstr(ask("bad.internal"), "none: "));
	asked = questions;
	assert_non_null(strstr(ask("bad.internal"), "none: "));
	assert_true(questions > asked);
}

static void
cancelled_question_is_never_answered(void **state)
{
	struct resolve *a = resolver_ask(r, "db.good", 1, on_addresses, NULL);
	struct resolve *b = resolver_ask(r, "10.1.2.3", 1, on_addresses, NULL);

	(void)state;
	resolve_cancel(a);
	resolve_cancel(b);
	resolve_cancel(NULL);
	assert_string_equal(ask("x.good"), "192.0.2.1:5432");
	assert_int_equal(calls, 1);
}

static void
only_numbers_are_numeric(void **state)
{
	struct resolve_addr a;

	(void)state;
	assert_true(resolve_numeric("192.0.2.1", 1, &a));
	assert_true(resolve_numeric("fe80::1", 1, &a));
	assert_false(resolve_numeric("1", 1, &a)); /* inet_aton would take it */
	assert_false(resolve_numeric("0x7f.1", 1, &a));
	assert_false(resolve_numeric("192.0.2.1 ", 1, &a));
	assert_false(resolve_numeric("", 1, &a));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		numbers_and_the_hosts_file_need_no_dns, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		what_the_hosts_file_does_not_say_goes_to_dns, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		an_answer_is_used_again_while_it_lives, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		cancelled_question_is_never_answered, set_up, tear_down),
	    cmocka_unit_test(only_numbers_are_numeric),
	};

	return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
