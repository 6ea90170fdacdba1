/*
 * Forms: is there a name in them by which some server takes another method? Beside each that has
 * one stands the nearest that has not, and what of multipart is read at all.
 */
#include "tests/unit/policy_help.h"

#include "common/jcs.h"
#include "policy/effects_http.h"
#include "policy/facts.h"
#include "policy/webform.h"

#include "common/banned.h"

#define FORM "application/x-www-form-urlencoded"
#define MULTIPART "multipart/form-data; boundary=XX"

enum found { PLAIN, OVERRIDE, REFUSED };

static enum found
found_in(const char *type, struct str body)
{
	struct http_view v = {.effects = EFFECT_write, .api = HTTP_API_FORM, .body_wanted = true};
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};
	int rc = facts_form(str_z(type), body, &facts, &err);

	if (rc != 0) {
		assert_true(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX);
		assert_true(err.msg[0] != '\0' && facts.n == 0);
		effects_http_body_fault("malformed", &v);
		assert_int_equal(v.effects, EFFECT_write | EFFECT_invalid);
		return REFUSED;
	}
	assert_true(jcs_is_canonical(buf_str(&facts), NULL));
	assert_int_equal(json_parse(buf_str(&facts), "facts", &doc, NULL), 0);
	effects_http_body(NULL, HTTP_API_FORM, json_root(doc), &v);
	if (v.effects == EFFECT_write)
		return PLAIN;
	assert_int_equal(v.effects, EFFECT_write | EFFECT_opaque);
	assert_non_null(v.fault);
	return OVERRIDE;
}

static void
assert_all(const char *type, enum found want, const char *const *bodies, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum found got = found_in(type, str_z(bodies[i]));

		if (got != want)
			fail_msg("%s: %d, wanted %d", bodies[i], got, want);
	}
}

static void
another_method_is_found_in_any_spelling(void **state UNUSED)
{
	static const char *const with[] = {"_method=DELETE", "a=1&_method=DELETE",
	    "a=1;_method=DELETE", "_METHOD=DELETE", "%5fmethod=DELETE", "%5Fmetho%64=DELETE",
	    "%255fmethod=DELETE", "%25255fmethod=DELETE", "%u005fmethod=DELETE", "_method",
	    "_method[]=DELETE", "_method%5B%5D=DELETE", "_method%00x=DELETE", "+_method=DELETE",
	    "%0a_method=DELETE", ".method=DELETE", "[method=DELETE", "&&&_method=DELETE&",
	    "_HttpMethod=PATCH", "x-http-method-override=PUT", "X_HTTP_Method=PUT"};
	static const char *const without[] = {"", "a=1", "method=DELETE", "a=_method",
	    "a=_method=b", "a=1%26_method=DELETE", "my_method=DELETE", "_methods=DELETE",
	    "_method_x=DELETE", "{\"_method\":\"DELETE\"}", "%", "%zz=1", "=_method"};

	assert_all(FORM, OVERRIDE, with, ARRAY_LEN(with));
	assert_all(FORM, PLAIN, without, ARRAY_LEN(without));
	assert_all("", OVERRIDE, with, ARRAY_LEN(with));
	assert_all("", PLAIN, without, ARRAY_LEN(without));
	assert_int_equal(found_in(FORM, STR("a=\0&_method=DELETE")), OVERRIDE);
}

#define PART(disposition) "--XX\r\nContent-Disposition: " disposition "\r\n\r\nv\r\n"
#define END "--XX--\r\n"

static void
a_multipart_form_is_read_by_its_names(void **state UNUSED)
{
	static const char *const with[] = {PART("form-data; name=\"_method\"") END,
	    PART("form-data; name=\"a\"") PART("form-data; name=_method") END,
	    PART("Form-Data;name=\"%5fmethod\"") END, PART("form-data; NAME=\"_Method\"") END,
	    PART("form-data; name=\"_method[]\"") END, PART("form-data; name=\" _method\"") END,
	    PART("form-data; filename=\"x\"; name=\"_method\"") END,
	    PART("form-data; name=\"_method\"; filename*=UTF-8''x") END};
	static const char *const without[] = {END, "--XX--", PART("form-data; name=\"a\"") END,
	    PART("form-data; name=\"a\"; filename=\"_method\"") END,
	    PART("form-data; name=\"method\"") PART("form-data; name=b") "--XX--",
	    "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.py\"\r\n"
	    "Content-Type: text/plain\r\nContent-Transfer-Encoding: binary\r\n\r\n"
	    "name=\"_method\"\n_method=DELETE\r\n\r\n-- XX\r\n" END,
	    PART("form-data; name=\"\"") END, PART("form-data; name=\"a;b=c\"") END,
	    "--XX\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n" END};

	assert_all(MULTIPART, OVERRIDE, with, ARRAY_LEN(with));
	assert_all(MULTIPART, PLAIN, without, ARRAY_LEN(without));
	assert_int_equal(
	    found_in("multipart/form-data; boundary=\"XX\"", str_z(without[2])), PLAIN);
}

static void
multipart_that_could_be_cut_another_way_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {"", "x" END, "\r\n" END, "--XX", "--XX\r\n",
	    "--XXX\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n" END,
	    PART("form-data; name=a"), PART("form-data; name=a") END "x",
	    PART("form-data; name=a") END "\r\n--XX\r\n", PART("form-data; name=a") "--XX-",
	    PART("form-data; name=a") "--XX \r\n" END,
	    "--XX\nContent-Disposition: form-data; name=a\n\nv\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\nX: \r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\n\n--XX\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nv--XX\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nv\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n" END,
	    "--XX\r\nContent-Disposition: form-data;\r\n name=_method\r\n\r\nv\r\n" END,
	    "--XX\r\n\r\nv\r\n" END, "--XX\r\nContent-Type: text/plain\r\n\r\nv\r\n" END,
	    "--XX\r\nX-Odd: 1\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Type: multipart/mixed; "
	    "boundary=YY\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
	    "name=_method\r\n\r\nv\r\n" END,
	    PART("attachment; name=a") END, PART("form-data") END, PART("form-data; name") END,
	    PART("form-data; name=a; name=_method") END,
	    PART("form-data; name*=UTF-8''_method") END, PART("form-data; name=\"a\\\"; x=\"") END,
	    PART("form-data; name=\"a\\\"; filename=\"; name=_method\"") END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Type: "
	    "a--XX\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Type: a\nX: "
	    "y\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Type: a\rX: "
	    "y\r\n\r\nv\r\n" END,
	    "--XX\r\nContent-Disposition: form-data; name=a\r\n Content-Type: a\r\n\r\nv\r\n" END,
	    PART("form-data; name=\"a") END, PART("form-data; name=a b") END,
	    PART("form-data; name=a; x=y") END,
	    PART("form-data; filename=a; filename=b; name=c") END,
	    PART("form-data; name=\"a\" x") END, PART("form-data, name=a") END,
	    PART("form-datax; name=a") END};

	assert_all(MULTIPART, REFUSED, bad, ARRAY_LEN(bad));
	assert_int_equal(
	    found_in(MULTIPART, STR("--XX\r\nContent-Disposition: form-data; name=\"a\0_\"\r\n\r\n"
				    "v\r\n--XX--")),
	    REFUSED);
	assert_int_equal(found_in(MULTIPART, STR(PART("form-data; name=a") END)), PLAIN);
}

static void
other_content_types_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {"application/json", "text/plain",
	    "multipart/mixed; boundary=XX", "multipart/form-data",
	    "multipart/form-data; boundary=\"\"", "multipart/form-data; boundary=XX; boundary=YY",
	    "multipart/form-data; boundary=\"X\\X\"", "multipart/form-data; boundary=X X",
	    FORM "; charset=utf-16", FORM "; charset=utf-7", FORM "; charset=utf-8; charset=utf-16",
	    FORM "; a=\"x\\\"; b=\"; charset=utf-16\"", FORM " x", "x", ";" FORM};
	static const char *const good[] = {FORM ";", FORM "; charset=utf-8",
	    FORM "; charset=ISO-8859-1", "Application/X-WWW-Form-Urlencoded", FORM " ; a=\"b;c\""};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (found_in(bad[i], STR("a=1")) != REFUSED)
			fail_msg("%s: read", bad[i]);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (found_in(good[i], STR("a=1")) != PLAIN)
			fail_msg("%s: refused", good[i]);
}

static void
a_form_is_read_within_its_limits(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(FACTS_FORM_MAX + 1024);

	for (int i = 0; i < FACTS_FORM_PARTS_MAX - 1; i++)
		buf_put_z(&b, "a&");
	assert_int_equal(found_in(FORM, buf_str(&b)), PLAIN);
	buf_put_z(&b, "_method=DELETE");
	assert_int_equal(found_in(FORM, buf_str(&b)), OVERRIDE);
	buf_put_z(&b, "&a");
	assert_int_equal(found_in(FORM, buf_str(&b)), REFUSED);
	buf_reset(&b);
	buf_put_z(&b, "a=");
	(void)memset(buf_grow(&b, FACTS_FORM_MAX - 2), 'x', FACTS_FORM_MAX - 2);
	assert_int_equal(found_in(FORM, buf_str(&b)), PLAIN);
	buf_put_z(&b, "x");
	assert_int_equal(found_in(FORM, buf_str(&b)), REFUSED);
}

static void
facts_of_a_form_that_are_not_in_the_form_are_opaque(void **state UNUSED)
{
	static const char *const bad[] = {"{}", "[]",
	    "{\"form\":\"x\",\"override\":false,\"parts\":1}",
	    "{\"form\":\"multipart\",\"override\":0,\"parts\":1}",
	    "{\"form\":\"multipart\",\"override\":false}",
	    "{\"form\":\"multipart\",\"override\":false,\"parts\":1,\"x\":1}"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(json) struct json_doc *doc = NULL;
		struct http_view v = {.effects = EFFECT_read, .api = HTTP_API_FORM};

		assert_int_equal(json_parse(str_z(bad[i]), "facts", &doc, NULL), 0);
		effects_http_body(NULL, HTTP_API_FORM, json_root(doc), &v);
		assert_int_equal(v.effects, EFFECT_read | EFFECT_opaque);
		assert_non_null(v.fault);
	}
}

static void
strict_decoding_refuses_what_is_no_text(void **state UNUSED)
{
	static const char *const bad[] = {"a%00", "%", "%4", "%4g", "%ff", "a%c0%ae", "%ed%a0%80"};
	AUTO_BUF struct buf b = BUF(64);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf_reset(&b);
		if (webform_decode(str_z(bad[i]), &b))
			fail_msg("%s: decoded", bad[i]);
	}
	buf_reset(&b);
	assert_false(webform_decode(STR("a\0b"), &b));
	buf_reset(&b);
	assert_true(webform_decode(STR("a+%2B%c3%A9&"), &b));
	assert_true(str_eqz(buf_str(&b), "a +\xc3\xa9&"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(another_method_is_found_in_any_spelling),
	    cmocka_unit_test(a_multipart_form_is_read_by_its_names),
	    cmocka_unit_test(multipart_that_could_be_cut_another_way_is_refused),
	    cmocka_unit_test(other_content_types_are_refused),
	    cmocka_unit_test(a_form_is_read_within_its_limits),
	    cmocka_unit_test(strict_decoding_refuses_what_is_no_text),
	    cmocka_unit_test(facts_of_a_form_that_are_not_in_the_form_are_opaque),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
