/* Requests to AWS to effects: whose they are, which action, in every way that AWS takes it. */
#include "tests/unit/kind_help.h"

#include "policy/aws_action.h"
#include "policy/effects_aws.h"

#include "common/banned.h"

#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
#define J10 "Content-Type: application/x-amz-json-1.0\r\n"
#define SIGNED(region, service)                                                               \
	"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/" region "/" service \
	"/aws4_request, SignedHeaders=host, Signature=0\r\n"
#define RDS SIGNED("eu-west-1", "rds")

static const struct {
	const char *service, *action;
} known[] = {
#define X(service, action) {service, action},
#include "policy/aws_actions.tbl"
#undef X
};

static void
every_action_of_the_table_is_found_and_does_something(void **state UNUSED)
{
	unsigned opaque = 0;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		struct aws_action a =
		    aws_action_find(str_z(known[i].service), str_z(known[i].action));

		if (!a.known || a.effects == 0)
			fail_msg("%s:%s", known[i].service, known[i].action);
		opaque += (a.effects & EFFECT_opaque) != 0;
	}
	assert_true(opaque < 40);
}

static void
assert_action(const char *action, const char *effects)
{
	AUTO_BUF struct buf got = BUF(256);
	struct http_view v;

	effects_aws_action(str_z(action), &v);
	effect_put(&got, v.effects);
	if (!str_eqz(buf_str(&got), effects))
		fail_msg("%s: %.*s", action, STR_ARG(buf_str(&got)));
}

static void
an_action_does_what_its_name_hides(void **state UNUSED)
{
	assert_action("rds:DescribeDBInstances", "read");
	assert_action("rds:DeleteDBInstance", "drop");
	assert_action("rds:RebootDBInstance", "disrupt");
	assert_action("s3:PutLifecycleConfiguration", "bulk delete");
	assert_action("s3:PutObject", "overwrite");
	assert_action("s3:DeleteObject", "delete");
	assert_action("s3:DeleteObjects", "bulk delete");
	assert_action("iam:PassRole", "priv");
	assert_action("iam:CreateUser", "priv write");
	assert_action("iam:ListUsers", "read");
	assert_action("iam:CreateAccessKey", "priv secret write");
	assert_action("sts:AssumeRole", "priv secret");
	assert_action("sts:GetSessionToken", "priv read secret");
	assert_action("sts:GetCallerIdentity", "read");
	assert_action("secretsmanager:GetSecretValue", "secret");
	assert_action("kms:ScheduleKeyDeletion", "audit drop");
	assert_action("ssm:SendCommand", "exec");
	assert_action("ec2:TerminateInstances", "drop");
	assert_action("ec2:DescribeInstances", "read");
	assert_action("ec2:DeleteVpc", "drop");
	assert_action("cloudwatch:PutMetricData", "write");
	assert_action("dynamodb:BatchGetItem", "read");
	assert_action("dynamodb:ExecuteStatement", "opaque");
	assert_action("organizations:LeaveOrganization", "drop priv");
	assert_action("newservice:FrobnicateThing", "opaque");
	assert_action("rds:deletedbinstance", "drop opaque");
	assert_action("rds", "opaque");
}

/* INC-04 of the field cases. */
static void
one_action_is_seen_in_every_encoding(void **state UNUSED)
{
#define DELETE_DB "Action=DeleteDBInstance&DBInstanceIdentifier=prod&SkipFinalSnapshot=true"
	static const struct kind_row rows[] = {
	    {"POST /", RDS FORM, DELETE_DB, "drop", "rds:DeleteDBInstance/prod"},
	    {"POST /", RDS FORM, "Version=1&" DELETE_DB, "drop", NULL},
	    {"POST /", RDS FORM, "%41ction=Delete%44BInstance&DBInstanceIdentifier=prod", "drop",
		"rds:DeleteDBInstance/prod"},
	    {"GET /?" DELETE_DB, RDS, NULL, "drop", "rds:DeleteDBInstance/prod"},
	    {"POST /?" DELETE_DB, RDS, NULL, "drop", NULL},
	    {"POST /", RDS FORM, "Action=DescribeDBInstances", "read", NULL},
	    {"POST /", RDS FORM, DELETE_DB "&Action=DescribeDBInstances", "opaque", NULL},
	    {"POST /", RDS FORM, "Action=DescribeDBInstances&Action=DescribeDBInstances", "opaque",
		NULL},
	    {"POST /", RDS FORM, "action=DeleteDBInstance", "opaque", NULL},
	    {"POST /", RDS FORM, "Action=deletedbinstance", "drop opaque", NULL},
	    {"POST /?Action=DescribeDBInstances", RDS FORM, DELETE_DB, "opaque", NULL},
	    {"GET /?Action=DescribeDBInstances&Action=DeleteDBInstance", RDS, NULL, "opaque", NULL},
	    {"POST /", RDS FORM, "DBInstanceIdentifier=prod", "opaque", NULL},
	    {"POST /", RDS FORM, "Action=FrobnicateThing", "opaque", NULL},
	    {"POST /", RDS FORM, "Action=%zz", "invalid", NULL},
	    {"POST /", RDS "Content-Type: text/plain\r\n", DELETE_DB, "opaque", NULL},
	    {"POST /", RDS FORM "Content-Encoding: gzip\r\n", DELETE_DB, "opaque", NULL},
	    {"POST /", RDS J10 "X-Amz-Target: AmazonRDSv19.DeleteDBInstance\r\n", "{}",
		"drop opaque", NULL},
	};

	KIND_ROWS("rds", rows);
}

static void
parameters_make_another_action_of_it(void **state UNUSED)
{
#define MODIFY "Action=ModifyDBInstance&DBInstanceIdentifier=prod"
	static const struct kind_row rows[] = {
	    {"POST /", RDS FORM, MODIFY "&AllocatedStorage=20", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=7", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&DeletionProtection=False", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=00", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=-0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=%2B0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=0.0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=+0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&BackupRetentionPeriod=30", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&DeletionProtection=0", "audit disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&DeletionProtection=TRUE", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&PubliclyAccessible=1", "disrupt net write", NULL},
	    {"POST /", RDS FORM, MODIFY "&PubliclyAccessible=False", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&AWSAccessKeyId=AKIAFOREIGN&Signature=x", "opaque", NULL},
	    {"POST /", RDS FORM, MODIFY "&x-amz-signature=00", "opaque", NULL},
	    {"POST /", RDS FORM, MODIFY "&Signatures=00", "disrupt write", NULL},
	    {"POST /", RDS FORM, MODIFY "&MasterUserPassword=x", "disrupt priv write", NULL},
	    {"POST /", RDS FORM,
		"Action=AddTagsToResource&ResourceName=arn:aws:rds:eu-west-1:123456789012:db:prod",
		"write", NULL},
	    {"POST /", RDS FORM,
		"Action=AddTagsToResource&ResourceName=arn:aws:rds:eu-west-1:999999999999:db:prod",
		"opaque write", NULL},
	};

	KIND_ROWS("rds", rows);
}

static void
signature_host_and_target_say_the_same(void **state UNUSED)
{
	static const struct kind_row rds[] = {
	    {"POST /", FORM, DELETE_DB, "drop", NULL}, /* not signed: by the host */
	    {"POST /", SIGNED("eu-west-1", "ec2") FORM, DELETE_DB, "opaque", NULL},
	    {"POST /", SIGNED("us-east-1", "rds") FORM, DELETE_DB, "opaque", NULL},
	    {"POST /", "Authorization: Bearer x\r\n" FORM, DELETE_DB, "opaque", NULL},
	    {"GET /?" DELETE_DB "&X-Amz-Signature=00", NULL, NULL, "opaque", NULL},
	};
	static const struct kind_row two[] = {
	    {"POST /", SIGNED("x-1", "dynamodb") J10 "X-Amz-Target: DynamoDB_20120810.PutItem\r\n",
		"{\"TableName\":\"orders\"}", "overwrite", "dynamodb:PutItem/orders"},
	    {"POST /", SIGNED("x-1", "dynamodb") J10 "X-Amz-Target: TrentService.Decrypt\r\n", "{}",
		"opaque", NULL},
	    {"POST /", SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.Decrypt\r\n",
		"{\"KeyId\":\"k\"}", "secret", "kms:Decrypt/k"},
	    {"POST /", SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.DescribeKey\r\n",
		"{\"KeyId\":\"k\",\"KeyId\":\"l\"}", "invalid read", NULL},
	    {"GET /", SIGNED("x-1", "kms") "X-Amz-Target: TrentService.DescribeKey\r\n", NULL,
		"opaque read", NULL},
	    {"POST /", J10 "X-Amz-Target: TrentService.DescribeKey\r\n", "{}", "opaque", NULL},
	    {"POST /",
		SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.DescribeKey\r\n"
					 "X-Amz-Target: TrentService.ScheduleKeyDeletion\r\n",
		"{}", "opaque read", NULL},
	    {"POST /?Action=ScheduleKeyDeletion",
		SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.DescribeKey\r\n", "{}",
		"opaque read", NULL},
	    {"POST /",
		SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.DescribeKey\r\n"
					 "Connection: X-Amz-Target\r\n",
		"{}", "invalid write", NULL},
	    {"POST /",
		SIGNED("x-1", "kms") J10 "X-Amz-Target: TrentService.DescribeKey\r\n"
					 "Connection: keep-alive\r\n",
		"{}", "read", NULL},
	    {"POST /", SIGNED("x-1", "sqs") J10 "X-Amz-Target: AmazonSQS.PurgeQueue\r\n", "{}",
		"opaque", NULL},
	};

	KIND_ROWS("rds", rds);
	KIND_ROWS("two", two);
}

static void
rest_services_say_it_by_method_and_path(void **state UNUSED)
{
	static const struct kind_row own[] = {
	    {"GET /logs?list-type=2&prefix=a%2Fb", NULL, NULL, "read", NULL},
	    {"GET /logs?list-type=2&prefix=a", NULL, NULL, "read", NULL},
	    {"GET /", NULL, NULL, "read", NULL},
	    {"GET /logs/a/b", NULL, NULL, "read", "s3:GetObject/logs s3:GetObject/logs/a/b"},
	    {"PUT /logs/a/b?x-id=PutObject", NULL, "x", "overwrite", NULL},
	    {"PUT /logs/a?partNumber=1&uploadId=u", NULL, "x", "write", NULL},
	    {"DELETE /logs/a", NULL, NULL, "delete", NULL},
	    {"DELETE /logs/a?uploadId=u", NULL, NULL, "delete", NULL},
	    {"DELETE /logs", NULL, NULL, "drop", NULL},
	    {"POST /logs?delete", NULL, "x", "bulk delete", NULL},
	    {"PUT /logs?lifecycle", NULL, "x", "bulk delete", NULL},
	    {"PUT /logs?policy", NULL, "x", "priv", NULL},
	    {"GET /logs?policy", NULL, NULL, "read", NULL},
	    {"PUT /logs?p%6flicy", NULL, "x", "opaque", NULL},
	    {"PUT /logs?newThing", NULL, "x", "opaque", NULL},
	    {"POST /logs", FORM, "key=a", "opaque", NULL},
	    {"GET /lo%67s/secre%741", NULL, NULL, "read",
		"s3:GetObject/logs s3:GetObject/logs/secret1"},
	    {"GET /logs/a+b%20c", NULL, NULL, "read", "s3:GetObject/logs s3:GetObject/logs/a+b c"},
	    {"PUT /logs/a", NULL, "x", "overwrite", "s3:PutObject/logs s3:PutObject/logs/a"},
	    {"PUT /logs/a", "x-amz-copy-source: /secre%74/k?versionId=3\r\n", "", "overwrite",
		"s3:CopyObject/logs s3:CopyObject/logs/a s3:CopyObject/secret/k"},
	    {"PUT /logs/a",
		"x-amz-copy-source: arn:aws:s3:x-1:123456789012:accesspoint/p/object/k\r\n", "",
		"overwrite", "s3:CopyObject/logs s3:CopyObject/logs/a s3:CopyObject/*"},
	    {"PUT /logs/a", "x-amz-copy-source: secret\r\n", "", "opaque overwrite", NULL},
	    {"PUT /logs/a?partNumber=1&uploadId=u", "x-amz-copy-source: secret/k\r\n", "", "write",
		"s3:UploadPartCopy/logs s3:UploadPartCopy/logs/a s3:UploadPartCopy/secret/k"},
	    {"PUT /logs/a?partNumber=1&uploadId=u", NULL, "x", "write",
		"s3:UploadPart/logs s3:UploadPart/logs/a"},
	    {"POST /logs?delete", NULL, "x", "bulk delete",
		"s3:DeleteObjects/logs s3:DeleteObjects/logs/*"},
	    {"PUT /logs/a", "x-amz-acl: public-read\r\n", "x", "overwrite priv", NULL},
	    {"DELETE /logs/a", "x-amz-bypass-governance-retention: true\r\n", NULL, "audit delete",
		NULL},
	};
	static const struct kind_row s3[] = {
	    {"GET /a", NULL, NULL, "read", "s3:GetObject/logs s3:GetObject/logs/a"},
	    {"DELETE /", NULL, NULL, "drop", NULL},
	    {"DELETE /a", NULL, NULL, "delete", NULL},
	};
	static const struct {
		const char *service, *method, *path, *name;
	} others[] = {
	    {"lambda", "POST", "/2015-03-31/functions/f/invocations", "Invoke"},
	    {"lambda", "DELETE", "/2015-03-31/functions/f", "DeleteFunction"},
	    {"eks", "DELETE", "/clusters/c", "DeleteCluster"},
	    {"eks", "GET", "/clusters", "ListClusters"},
	    {"route53", "POST", "/2013-04-01/hostedzone/Z/rrset", "ChangeResourceRecordSets"},
	    {"eks", "GET", "/cluster", NULL},
	};

	KIND_ROWS("own", own);
	KIND_ROWS("s3", s3);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const char *name;
		struct str first;

		(void)aws_rest_find(str_z(others[i].service), str_z(others[i].method),
		    str_z(others[i].path), STR(""), &name, &first);
		if ((name == NULL) != (others[i].name == NULL) ||
		    (name != NULL && strstr(name, others[i].name) == NULL))
			fail_msg("%s %s: %s", others[i].method, others[i].path,
			    name != NULL ? name : "none");
	}
}

static void
what_is_laid_down_acts_later(void **state UNUSED)
{
	assert_true(kind_view("own", "PUT /logs?lifecycle", NULL, STR("x"), true).deferred);
	assert_false(kind_view("own", "GET /logs?lifecycle", NULL, STR(""), false).deferred);
	assert_false(kind_view("own", "PUT /logs/a", NULL, STR("x"), true).deferred);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_action_of_the_table_is_found_and_does_something),
	    cmocka_unit_test(an_action_does_what_its_name_hides),
	    cmocka_unit_test(one_action_is_seen_in_every_encoding),
	    cmocka_unit_test(parameters_make_another_action_of_it),
	    cmocka_unit_test(signature_host_and_target_say_the_same),
	    cmocka_unit_test(rest_services_say_it_by_method_and_path),
	    cmocka_unit_test(what_is_laid_down_acts_later),
	};

	return cmocka_run_group_tests(tests, kind_setup, kind_teardown);
}
