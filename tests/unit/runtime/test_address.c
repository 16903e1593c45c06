#include "runtime/address.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"

START_TEST(reads_hosts_and_ports)
{
	char host[ADDRESS_HOST_SIZE];
	int port;

	ck_assert(address_parse("0.0.0.0:7001", host, &port));
	ck_assert_str_eq(host, "0.0.0.0");
	ck_assert_int_eq(port, 7001);
	ck_assert(address_parse("[::1]:0", host, &port));
	ck_assert_str_eq(host, "::1");
	ck_assert_int_eq(port, 0);
	ck_assert(address_parse("inventory.default.svc:65535", host, &port));
}
END_TEST

START_TEST(refuses_what_is_no_address)
{
	static const char *const wrong[] = {"",		 "7001", ":7001", "host:", "host:65536",
					    "host:-1",	 "h:+1", "h: 1",  "h:70x", "::1:7001",
					    "[::1]7001", "[::1", "[]:1",  "[::1:1"};
	char host[ADDRESS_HOST_SIZE], long_name[400];
	int port;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		ck_assert_msg(!address_parse(wrong[i], host, &port), "%s", wrong[i]);
	memset(long_name, 'a', sizeof(long_name));
	strcpy(long_name + 300, ":1");
	ck_assert(!address_parse(long_name, host, &port));
}
END_TEST

START_TEST(names_who_holds_a_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char text[64], holder[64];
	const char *log;

	ck_assert(!bind(fd, (struct sockaddr *)&address, size));
	ck_assert(!listen(fd, 1));
	getsockname(fd, (struct sockaddr *)&address, &size);
	snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(address.sin_port));

	capture_begin();
	ck_assert(!address_free(text));
	log = capture_end();
	snprintf(holder, sizeof(holder), "\"held_by\":\"test_address (pid %d)\"", getpid());
	ck_assert_msg(strstr(log, holder), "%s", log);
	close(fd);
	ck_assert(address_free(text));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("address");
	TCase *cases = tcase_create("address");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(cases, reads_hosts_and_ports);
	tcase_add_test(cases, refuses_what_is_no_address);
	tcase_add_test(cases, names_who_holds_a_port);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
