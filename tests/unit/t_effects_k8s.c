/* Requests to the Kubernetes API to effects: paths, verbs, bodies, and what stands beside each. */
#include "tests/unit/kind_help.h"

#include "policy/effects_k8s_path.h"

#include "common/banned.h"

#define JSON "Content-Type: application/json\r\n"
#define MERGE "Content-Type: application/merge-patch+json\r\n"
#define STRATEGIC "Content-Type: application/strategic-merge-patch+json\r\n"
#define JSONPATCH "Content-Type: application/json-patch+json\r\n"
#define APPLY "Content-Type: application/apply-patch+yaml\r\n"
#define PODS "/api/v1/namespaces/payments/pods"
#define DEPLOY "/apis/apps/v1/namespaces/payments/deployments"

static void
paths_are_read_as_the_server_reads_them(void **state UNUSED)
{
	static const struct {
		const char *path;
		enum k8s_place place;
		const char *group, *ns, *resource, *name, *sub;
	} rows[] = {
	    {"/api", K8S_DISCOVERY, "", "", "", "", ""},
	    {"/api/v1", K8S_DISCOVERY, "", "", "", "", ""},
	    {"/apis/apps", K8S_DISCOVERY, "apps", "", "", "", ""},
	    {"/apis/apps/v1/", K8S_DISCOVERY, "apps", "", "", "", ""},
	    {"/api/v1/nodes", K8S_RESOURCE, "", "", "nodes", "", ""},
	    {"/api/v1/nodes/n1", K8S_RESOURCE, "", "", "nodes", "n1", ""},
	    {"/api/v1/nodes/n1/proxy/a/b", K8S_RESOURCE, "", "", "nodes", "n1", "proxy"},
	    {"/api/v1/namespaces", K8S_RESOURCE, "", "", "namespaces", "", ""},
	    {"/api/v1/namespaces/a", K8S_RESOURCE, "", "", "namespaces", "a", ""},
	    {"/api/v1/namespaces/a/finalize", K8S_RESOURCE, "", "", "namespaces", "a", "finalize"},
	    {"/api/v1/namespaces/a/pods/", K8S_RESOURCE, "", "a", "pods", "", ""},
	    {"/api/v1/namespaces/a/pods/p/log", K8S_RESOURCE, "", "a", "pods", "p", "log"},
	    {"/api/v1/watch/namespaces/a/pods", K8S_RESOURCE, "", "a", "pods", "", ""},
	    {"/apis/apps/v1/watch/namespaces/a/deployments", K8S_RESOURCE, "apps", "a",
		"deployments", "", ""},
	    {"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", K8S_RESOURCE,
		"rbac.authorization.k8s.io", "", "clusterroles", "system:node", ""},
	    {"/api/v1/proxy/namespaces/a/pods/p", K8S_PROXY, "", "", "", "", ""},
	    {"/logs/kubelet.log", K8S_INSIDES, "", "", "", "", ""},
	    {"/version", K8S_DISCOVERY, "", "", "", "", ""},
	    {"/versions", K8S_BAD, "", "", "", "", ""},
	    {"/api/v1/namespaces/a/pods/p/log/x", K8S_BAD, NULL, NULL, NULL, NULL, NULL},
	    {"/api/v1/namespaces/a/Pods", K8S_BAD, NULL, NULL, NULL, NULL, NULL},
	    {"/api/v1/namespaces/a/po%64s", K8S_BAD, NULL, NULL, NULL, NULL, NULL},
	    {"/apis/apps/v1/namespaces/a", K8S_BAD, NULL, NULL, NULL, NULL, NULL},
	    {"/api/v1/watch/watch/watch/pods", K8S_RESOURCE, NULL, NULL, NULL, NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct k8s_path p = k8s_path_parse(str_z(rows[i].path));

		if (p.place != rows[i].place)
			fail_msg("%s: place %d", rows[i].path, (int)p.place);
		if (rows[i].group == NULL)
			continue;
		if (!str_eqz(p.group, rows[i].group) || !str_eqz(p.ns, rows[i].ns) ||
		    !str_eqz(p.resource, rows[i].resource) || !str_eqz(p.name, rows[i].name) ||
		    !str_eqz(p.sub, rows[i].sub))
			fail_msg("%s: %.*s %.*s %.*s %.*s %.*s", rows[i].path, STR_ARG(p.group),
			    STR_ARG(p.ns), STR_ARG(p.resource), STR_ARG(p.name), STR_ARG(p.sub));
	}
}

static void
a_verb_on_an_object_does_what_the_table_says(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"GET " PODS, NULL, NULL, "read", "payments/pods/*"},
	    {"GET " PODS "/p1", NULL, NULL, "read", "payments/pods/p1"},
	    {"GET /api/v1/pods", NULL, NULL, "read", "*/pods/*"},
	    {"GET /api/v1/pods?watch=1", NULL, NULL, "read", "*/pods/*"},
	    {"GET /api/v1/nodes/n1", NULL, NULL, "read", "-/nodes/n1"},
	    {"GET " PODS "/p1/log?follow=true", NULL, NULL, "read", "payments/pods/p1/log"},
	    {"POST " PODS, JSON, "{\"kind\":\"Pod\"}", "write", "payments/pods/*"},
	    {"PUT " PODS "/p1", JSON, "{\"kind\":\"Pod\"}", "overwrite", "payments/pods/p1"},
	    {"PATCH " PODS "/p1", MERGE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", "write",
		"payments/pods/p1"},
	    {"DELETE " PODS "/p1", NULL, NULL, "delete", "payments/pods/p1"},
	    {"DELETE " PODS, NULL, NULL, "bulk delete", "payments/pods/*"},
	    {"DELETE " PODS "/", NULL, NULL, "bulk delete", "payments/pods/*"},
	    {"DELETE /api/v1/namespaces/payments", NULL, NULL, "delete drop",
		"-/namespaces/payments payments/*"},
	    {"DELETE /api/v1/persistentvolumes/v", NULL, NULL, "delete drop",
		"-/persistentvolumes/v"},
	    {"DELETE /api/v1/namespaces/a/persistentvolumeclaims", NULL, NULL, "bulk delete drop",
		NULL},
	    {"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, "{}", "schema",
		NULL},
	    {"PATCH /api/v1/nodes/n1", STRATEGIC, "{\"spec\":{\"unschedulable\":true}}",
		"disrupt write", "-/nodes/n1"},
	    {"POST " PODS "/p1/eviction", JSON, "{}", "delete disrupt", NULL},
	    {"GET " DEPLOY "/api", NULL, NULL, "read", "payments/deployments.apps/api"},
	    {"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON, "{}", "read",
		NULL},
	    {"GET /openapi/v3/apis/apps/v1?hash=a", NULL, NULL, "read", ""},
	    {"GET /apis", NULL, NULL, "read", ""},
	    {"POST /apis", JSON, "{}", "opaque", ""},
	    {"PUT " PODS, JSON, "{}", "opaque overwrite", NULL},
	    {"POST " PODS "/p1", JSON, "{}", "opaque write", NULL},
	    {"OPTIONS " PODS, NULL, NULL, "invalid", NULL},
	    {"GET /api/v1/namespaces/payments/pods/%2e%2e/secrets", NULL, NULL, "invalid", ""},
	    {"GET /api//v1/pods", NULL, NULL, "invalid", ""},
	    {"GET /api/v1/namespaces/a/pods/p/console", NULL, NULL, "opaque", NULL},
	    {"GET /apis/kubevirt.io/v1/namespaces/a/virtualmachines/v/console", NULL, NULL,
		"opaque", NULL},
	    {"DELETE /apis/example.com/v1/namespaces/a/widgets/w", NULL, NULL, "delete",
		"a/widgets.example.com/w"},
	};

	KIND_ROWS("k", rows);
}

static void
secrets_rights_and_what_runs_are_their_own_classes(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"GET /api/v1/namespaces/a/secrets", NULL, NULL, "secret", NULL},
	    {"GET /api/v1/secrets?watch=1", NULL, NULL, "secret", NULL},
	    {"GET /api/v1/watch/secrets", NULL, NULL, "secret", NULL},
	    {"GET /api/v1/namespaces/a/secrets/s",
		"Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n", NULL, "secret", NULL},
	    {"HEAD /api/v1/namespaces/a/secrets/s", NULL, NULL, "secret", NULL},
	    {"PATCH /api/v1/namespaces/a/secrets/s", MERGE, "{}", "secret write", NULL},
	    {"PATCH /api/v1/namespaces/a/secrets/s?dryRun=All", MERGE, "{}", "secret", NULL},
	    {"POST /api/v1/namespaces/a/secrets", JSON, "{}", "write", NULL},
	    {"DELETE /api/v1/namespaces/a/secrets/s", NULL, NULL, "delete", NULL},
	    {"DELETE /api/v1/namespaces/a/secrets", NULL, NULL, "bulk delete secret", NULL},
	    {"GET /api/v1/namespaces/a/configmaps/c", NULL, NULL, "read", NULL},
	    {"POST /api/v1/namespaces/a/serviceaccounts/d/token", JSON, "{}", "priv secret", NULL},
	    {"POST /api/v1/namespaces/a/serviceaccounts/d/token?dryRun=All", JSON, "{}",
		"priv secret", NULL},
	    {"POST /api/v1/namespaces/a/serviceaccounts", JSON, "{}", "write", NULL},
	    {"GET /configz", NULL, NULL, "secret", NULL},
	    {"GET " PODS "/p/exec?command=id", NULL, NULL, "exec", NULL},
	    {"POST " PODS "/p/exec?command=id&dryRun=All", NULL, NULL, "exec", NULL},
	    {"GET " PODS "/p/attach", NULL, NULL, "exec", NULL},
	    {"GET " PODS "/p/portforward", NULL, NULL, "net", NULL},
	    {"GET " PODS "/p/proxy/", NULL, NULL, "exec", NULL},
	    {"GET /api/v1/namespaces/a/services/s:80/proxy/x", NULL, NULL, "exec", NULL},
	    {"PATCH " PODS "/p/ephemeralcontainers", STRATEGIC, "{}", "exec write", NULL},
	    {"GET " PODS "/p/ephemeralcontainers", NULL, NULL, "read", NULL},
	    {"POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings", JSON, "{}", "priv",
		NULL},
	    {"GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings", NULL, NULL, "read",
		NULL},
	    {"DELETE /apis/rbac.authorization.k8s.io/v1/clusterroles/x", NULL, NULL, "delete priv",
		NULL},
	    {"PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", JSON, "{}",
		"priv", NULL},
	    {"PATCH /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/x", MERGE,
		"{}", "priv", NULL},
	    {"GET " PODS, "Impersonate-User: system:admin\r\n", NULL, "priv read", NULL},
	    {"GET " PODS, "impersonate_group: system:masters\r\n", NULL, "priv read", NULL},
	    {"GET " PODS, "X-Remote-User: admin\r\n", NULL, "priv read", NULL},
	    {"GET " PODS, "X-HTTP-Method-Override: DELETE\r\n", NULL, "opaque read", NULL},
	    {"GET " PODS, "User-Agent: kubectl/v1.32\r\n", NULL, "read", NULL},
	};

	KIND_ROWS("k", rows);
}

static void
a_dry_run_is_one_only_where_the_server_keeps_the_promise(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"DELETE " PODS "/p1?dryRun=All", NULL, NULL, "read", NULL},
	    {"DELETE " PODS "/p1?dryRun=all", NULL, NULL, "delete", NULL},
	    {"DELETE " PODS "/p1?dryrun=All", NULL, NULL, "delete", NULL},
	    {"DELETE " PODS "/p1?dryRun=All&dryRun=", NULL, NULL, "delete", NULL},
	    {"DELETE " PODS "/p1?dryRun=All&dry%52un=x", NULL, NULL, "delete", NULL},
	    {"DELETE " PODS "/p1?dryRun=All;dryRun=All", NULL, NULL, "delete", NULL},
	    {"DELETE " PODS "/p1", JSON, "{\"kind\":\"DeleteOptions\",\"dryRun\":[\"All\"]}",
		"read", NULL},
	    /* The server reads the query only where there is no body. */
	    {"DELETE " PODS "/p1?dryRun=All", JSON, "{\"kind\":\"DeleteOptions\"}", "delete", NULL},
	    {"DELETE " PODS "/p1?dryRun=All", JSON, "{}", "delete", NULL},
	    {"DELETE " PODS "/p1", JSON, "{\"kind\":\"DeleteOptions\",\"dryRun\":[\"All\",\"x\"]}",
		"delete", NULL},
	    {"DELETE /apis/example.com/v1/namespaces/a/widgets/w", JSON,
		"{\"kind\":\"DeleteOptions\",\"dryRun\":[\"All\"]}", "delete", NULL},
	    {"PATCH " DEPLOY "/api/scale?dryRun=All", MERGE, "{\"spec\":{\"replicas\":0}}", "read",
		NULL},
	    {"POST " DEPLOY "?dryRun=All&fieldManager=kubectl", JSON, "{\"kind\":\"Deployment\"}",
		"read", NULL},
	    {"DELETE /apis/example.com/v1/namespaces/a/widgets/w?dryRun=All", NULL, NULL, "delete",
		NULL},
	};

	KIND_ROWS("k", rows);
}

static void
a_body_says_how_many_and_for_whom(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"PATCH " DEPLOY "/api/scale", MERGE, "{\"spec\":{\"replicas\":0}}", "disrupt write",
		NULL},
	    {"PATCH " DEPLOY "/api/scale", MERGE, "{\"spec\":{\"replicas\":5}}", "write", NULL},
	    {"PATCH " DEPLOY "/api/scale", MERGE, "{\"spec\":{\"replicas\":0.5}}", "disrupt write",
		NULL},
	    {"PATCH " DEPLOY "/api/scale", MERGE, "{}", "disrupt write", NULL},
	    {"PATCH " DEPLOY "/api/scale", NULL, NULL, "disrupt write", NULL},
	    {"PUT " DEPLOY "/api/scale", JSON, "{\"spec\":{\"replicas\":3}}", "overwrite", NULL},
	    {"PATCH " DEPLOY "/api", STRATEGIC, "{\"spec\":{\"replicas\":0}}", "disrupt write",
		NULL},
	    {"PATCH " DEPLOY "/api", APPLY, "{\"kind\":\"Deployment\",\"spec\":{\"replicas\":2}}",
		"write", NULL},
	    {"PATCH " DEPLOY "/api", JSONPATCH,
		"[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":0}]", "disrupt write",
		NULL},
	    {"PATCH " DEPLOY "/api", JSONPATCH,
		"[{\"op\":\"copy\",\"from\":\"/x\",\"path\":\"/spec/replicas\"}]", "disrupt write",
		NULL},
	    {"PATCH " DEPLOY "/api", JSONPATCH,
		"[{\"op\":\"replace\",\"path\":\"/spec/paused\",\"value\":true}]", "write", NULL},
	    {"PATCH " DEPLOY "/api", JSONPATCH, "[{\"op\":\"fly\",\"path\":\"/x\"}]",
		"invalid write", NULL},
	    {"PATCH " PODS "/p", MERGE, "{\"metadata\":{\"finalizers\":null}}", "drop write", NULL},
	    {"PATCH " PODS "/p", STRATEGIC,
		"{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"x\"]}}", "drop write",
		NULL},
	    {"PATCH " PODS "/p", JSONPATCH,
		"[{\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}]", "drop write", NULL},
	    {"PATCH " PODS "/p", STRATEGIC, "{\"metadata\":{\"finalizers\":[\"x\"]}}", "write",
		NULL},
	    {"PATCH " PODS "/p", STRATEGIC,
		"{\"spec\":{\"containers\":[{\"$patch\":\"replace\"}]}}", "overwrite write", NULL},
	    {"POST " PODS, JSON,
		"{\"spec\":{\"containers\":[{\"securityContext\":{\"privileged\":true}}]}}",
		"priv write", NULL},
	    {"POST " PODS, JSON,
		"{\"spec\":{\"containers\":[{\"securityContext\":{\"privileged\":false}}]}}",
		"write", NULL},
	    {"POST " DEPLOY, JSON, "{\"spec\":{\"template\":{\"spec\":{\"hostNetwork\":true}}}}",
		"priv write", NULL},
	    {"POST " PODS, JSON, "{\"spec\":{\"volumes\":[{\"hostPath\":{\"path\":\"/\"}}]}}",
		"priv write", NULL},
	    {"PATCH " DEPLOY "/api", JSONPATCH,
		"[{\"op\":\"add\",\"path\":\"/spec/template/spec/hostPID\",\"value\":true}]",
		"priv write", NULL},
	    {"DELETE " PODS "/p", JSON,
		"{\"kind\":\"DeleteOptions\",\"propagationPolicy\":\"Orphan\"}", "delete", NULL},
	    {"DELETE " PODS "/p", JSON, "{\"kind\":\"Pod\"}", "delete opaque", NULL},
	    {"POST " PODS, JSON, "{\"a\":1,\"a\":2}", "invalid write", NULL},
	    {"POST " PODS, "Content-Type: application/yaml\r\n", "kind: Pod\n", "invalid write",
		NULL},
	    {"POST " PODS, "Content-Type: application/vnd.kubernetes.protobuf\r\n", "k8s",
		"opaque write", NULL},
	    {"POST /api/v1/namespaces/a/configmaps",
		"Content-Type: application/vnd.kubernetes.protobuf\r\n", "k8s", "write", NULL},
	    {"POST " PODS, JSON "Content-Encoding: gzip\r\n", "x", "opaque write", NULL},
	    {"GET " PODS, JSON, "{}", "opaque read", NULL},
	};

	KIND_ROWS("k", rows);
}

static void
what_runs_by_the_clock_acts_later(void **state UNUSED)
{
#define CRON "/apis/batch/v1/namespaces/a/cronjobs"
	static const struct {
		const char *line;
		bool later;
	} rows[] = {{"POST " CRON, true}, {"PATCH " CRON "/c", true}, {"PUT " CRON "/c", true},
	    {"GET " CRON, false}, {"DELETE " CRON "/c", false}, {"POST " CRON "?dryRun=All", false},
	    {"POST /apis/batch/v1/namespaces/a/jobs", false}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (kind_view("k", rows[i].line, MERGE, STR("{}"), true).deferred != rows[i].later)
			fail_msg("%s", rows[i].line);
}

static void
a_target_may_be_some_namespaces_alone(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"GET " PODS, NULL, NULL, "read", NULL},
	    {"GET /api/v1/namespaces/web", NULL, NULL, "read", NULL},
	    {"GET /api/v1/namespaces/other/pods", NULL, NULL, "opaque read", NULL},
	    {"GET /api/v1/pods", NULL, NULL, "opaque read", NULL},
	    {"DELETE /api/v1/namespaces/other", NULL, NULL, "delete drop opaque", NULL},
	    {"GET /api/v1/nodes", NULL, NULL, "opaque read", NULL},
	    {"GET /apis", NULL, NULL, "read", NULL},
	    {"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON, "{}", "read",
		NULL},
	};

	KIND_ROWS("some", rows);
}

#define SPDY "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n"

static void
a_stream_into_a_pod_does_what_the_policy_says(void **state UNUSED)
{
	static const struct kind_row may[] = {
	    {"POST " PODS "/p1/exec?command=id", SPDY, NULL, "write", "payments/pods/p1/exec"},
	    {"POST " PODS "/p1/attach", SPDY, NULL, "write", "payments/pods/p1/attach"},
	    {"POST " PODS "/p1/portforward", SPDY, NULL, "write", "payments/pods/p1/portforward"},
	    {"GET " PODS "?watch=1", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", NULL,
		"read write", "payments/pods/*"},
	    {"POST " PODS "/p1/exec?dryRun=All", SPDY, NULL, "write", NULL},
	    /* Without, by another protocol, elsewhere, as another: what it was. */
	    {"POST " PODS "/p1/exec", "Content-Length: 0\r\n", NULL, "exec", NULL},
	    {"POST " PODS "/p1/portforward", "Content-Length: 0\r\n", NULL, "net", NULL},
	    {"POST " PODS "/p1/exec",
		"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n", NULL, "exec opaque",
		NULL},
	    {"POST " PODS "/p1/proxy", SPDY, NULL, "exec write", NULL},
	    {"POST /api/v1/nodes/n1/proxy", SPDY, NULL, "exec opaque write", NULL},
	    {"POST /api/v1/namespaces/kube-system/pods/p1/exec", SPDY, NULL, "opaque write", NULL},
	    {"POST " PODS "/p1/exec", SPDY "Impersonate-User: a\r\n", NULL, "priv write", NULL},
	};
	static const struct kind_row other[] = {
	    {"POST " PODS "/p1/exec", SPDY, NULL, "exec opaque", NULL},
	};

	KIND_ROWS("some", may);
	KIND_ROWS("k", other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(paths_are_read_as_the_server_reads_them),
	    cmocka_unit_test(a_verb_on_an_object_does_what_the_table_says),
	    cmocka_unit_test(secrets_rights_and_what_runs_are_their_own_classes),
	    cmocka_unit_test(a_dry_run_is_one_only_where_the_server_keeps_the_promise),
	    cmocka_unit_test(a_body_says_how_many_and_for_whom),
	    cmocka_unit_test(what_runs_by_the_clock_acts_later),
	    cmocka_unit_test(a_target_may_be_some_namespaces_alone),
	    cmocka_unit_test(a_stream_into_a_pod_does_what_the_policy_says),
	};

	return cmocka_run_group_tests(tests, kind_setup, kind_teardown);
}
