#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/redis_url.h"

static struct redis_url url;
static const char *reason;

START_TEST(a_plain_url_is_understood)
{
	ck_assert(redis_url_parse("redis://shop.example:7000/5", &url, &reason));
	ck_assert(!url.tls && !url.sentinel);
	ck_assert_int_eq(url.count, 1);
	ck_assert_str_eq(url.addresses[0].host, "shop.example");
	ck_assert_int_eq(url.addresses[0].port, 7000);
	ck_assert_int_eq(url.database, 5);
	ck_assert_str_eq(url.user, "");
	ck_assert_str_eq(url.password, "");
}
END_TEST

START_TEST(what_is_left_out_has_defaults)
{
	ck_assert(redis_url_parse("redis://here", &url, &reason));
	ck_assert_int_eq(url.addresses[0].port, 6379);
	ck_assert_int_eq(url.database, 0);
	ck_assert(redis_url_parse("redis://here/", &url, &reason));
	ck_assert(redis_url_parse("sentinel://here/shop", &url, &reason));
	ck_assert_int_eq(url.addresses[0].port, 26379);
}
END_TEST

START_TEST(credentials_are_decoded)
{
	ck_assert(redis_url_parse("rediss://us%65r:p%40%2f@ss@h:1", &url, &reason));
	ck_assert(url.tls);
	ck_assert_str_eq(url.user, "user");
	ck_assert_str_eq(url.password, "p@/@ss");
	ck_assert(redis_url_parse("redis://:secret@h", &url, &reason));
	ck_assert_str_eq(url.user, "");
	ck_assert_str_eq(url.password, "secret");
}
END_TEST

START_TEST(ipv6_stands_in_brackets)
{
	ck_assert(redis_url_parse("redis://[::1]:7000", &url, &reason));
	ck_assert_str_eq(url.addresses[0].host, "::1");
	ck_assert_int_eq(url.addresses[0].port, 7000);
	ck_assert(redis_url_parse("redis://[fe80::1]", &url, &reason));
	ck_assert_int_eq(url.addresses[0].port, 6379);
}
END_TEST

START_TEST(a_socket_is_a_path)
{
	ck_assert(redis_url_parse("unix:///run/redis/socket?db=2", &url, &reason));
	ck_assert_str_eq(url.addresses[0].host, "/run/redis/socket");
	ck_assert_int_eq(url.addresses[0].port, 0);
	ck_assert_int_eq(url.database, 2);
}
END_TEST

START_TEST(sentinels_are_a_list_and_a_name)
{
	ck_assert(redis_url_parse("sentinel://u:p@a:1,[::2]:2,c/shop/3", &url, &reason));
	ck_assert(url.sentinel);
	ck_assert_int_eq(url.count, 3);
	ck_assert_str_eq(url.addresses[1].host, "::2");
	ck_assert_int_eq(url.addresses[1].port, 2);
	ck_assert_str_eq(url.addresses[2].host, "c");
	ck_assert_int_eq(url.addresses[2].port, 26379);
	ck_assert_str_eq(url.master, "shop");
	ck_assert_int_eq(url.database, 3);
}
END_TEST

START_TEST(what_is_not_understood_is_refused)
{
	static const char *const wrong[] = {
		"",
		"redis",
		"redis:/h",
		"http://h",
		"REDIS://h",
		"redis://",
		"redis://:6379",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:99999999999999999999",
		"redis://h:6379x",
		"redis://h: 1",
		"redis://h/x",
		"redis://h/1/2",
		"redis://h/-1",
		"redis://h/65536",
		"redis://h?db=1",
		"redis://h#1",
		"redis://a,b",
		"redis://user@h",
		"redis://user:@h",
		"redis://us%er:p@h",
		"redis://u:p%0@h",
		"redis://u:p%00@h",
		"redis://[::1",
		"redis://[::1]7000",
		"redis://[]",
		"redis://h h",
		"redis://h\n",
		"unix://",
		"unix://relative",
		"unix:///s?db=",
		"unix:///s?db=x",
		"unix:///s?other=1",
		"sentinel://a:1,b:2",
		"sentinel://a/",
		"sentinel://a,/shop",
		"sentinel://,a/shop",
		"sentinel://a/shop/x",
		"sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/shop",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		reason = NULL;
		ck_assert_msg(!redis_url_parse(wrong[i], &url, &reason), "'%s' was taken",
			      wrong[i]);
		ck_assert_ptr_nonnull(reason);
	}
}
END_TEST

START_TEST(parts_that_are_too_long_are_refused)
{
	static const struct {
		const char *before, *after;
		size_t max; /* of x between the two */
	} cases[] = {
		{"redis://", ":1", 255},    {"redis://", ":p@h", 127}, {"redis://u:", "@h", 511},
		{"sentinel://h/", "", 127}, {"unix:///", "", 106},
	};
	char text[2048];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t size = cases[i].max; size <= cases[i].max + 1; size++) {
			strcpy(text, cases[i].before);
			memset(text + strlen(cases[i].before), 'x', size);
			strcpy(text + strlen(cases[i].before) + size, cases[i].after);
			ck_assert_msg(redis_url_parse(text, &url, &reason) ==
					      (size == cases[i].max),
				      "%s", text);
		}
}
END_TEST

/* Under the address sanitizer this is where a wrong step past the end shows. */
START_TEST(no_text_whatever_does_harm)
{
	static const char *const seeds[] = {"redis://user:pass%40@host.example:6379/12",
					    "rediss://:p@[::1]:1/2", "unix:///run/redis.sock?db=3",
					    "sentinel://u:p@a:1,b:2,[::3]:3/shop/4"};
	static const char bits[] = ":/@%[],?#0a9\x7f\xff\n =";
	int taken = 0;

	srandom(1);
	for (int round = 0; round < 300000; round++) {
		const char *seed = seeds[random() % 4];
		size_t size = strlen(seed);
		char *text = malloc(size + 2); /* exact, for the sanitizer */

		strcpy(text, seed);
		for (long changes = random() % 4; changes >= 0; changes--) {
			size_t at = (size_t)random() % size;

			switch (random() % 3) {
			case 0:
				text[at] = bits[(size_t)random() % (sizeof(bits) - 1)];
				break;
			case 1:
				memmove(text + at, text + at + 1, strlen(text + at));
				break;
			default:
				text[at] = 0;
			}
			size = strlen(text) ? strlen(text) : 1;
		}
		if (redis_url_parse(text, &url, &reason)) {
			taken++;
			ck_assert_int_ge(url.count, 1);
			ck_assert_int_le(url.count, REDIS_ADDRESSES_MAX);
			ck_assert(*url.addresses[0].host);
			ck_assert(!url.sentinel || *url.master);
		}
		free(text);
	}
	ck_assert_int_gt(taken, 1000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_url");
	TCase *test = tcase_create("redis_url");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, a_plain_url_is_understood);
	tcase_add_test(test, what_is_left_out_has_defaults);
	tcase_add_test(test, credentials_are_decoded);
	tcase_add_test(test, ipv6_stands_in_brackets);
	tcase_add_test(test, a_socket_is_a_path);
	tcase_add_test(test, sentinels_are_a_list_and_a_name);
	tcase_add_test(test, what_is_not_understood_is_refused);
	tcase_add_test(test, parts_that_are_too_long_are_refused);
	tcase_add_test(test, no_text_whatever_does_harm);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
