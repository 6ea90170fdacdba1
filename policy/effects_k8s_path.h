/* Paths of the Kubernetes API (kubernetes/website, reference/using-api/api-concepts). Pure. */
#ifndef POLICY_EFFECTS_K8S_PATH_H
#define POLICY_EFFECTS_K8S_PATH_H

#include "common/buf.h"

enum k8s_place {
	K8S_BAD = 0,   /* no path of this API */
	K8S_DISCOVERY, /* what there is, and how the server is: /api, /apis/GROUP, /version, ... */
	K8S_INSIDES,   /* logs, profiles and settings of the server itself */
	K8S_PROXY,     /* the old way through the server: /api/v1/proxy/... */
	K8S_RESOURCE
};
struct k8s_path {
	enum k8s_place place;
	struct str group;		/* "" the core group */
	struct str ns;			/* "" none: of the cluster, or of all namespaces */
	struct str resource, name, sub; /* name "": the collection; sub "": the object itself */
	bool watch;			/* the old form of watching, /api/v1/watch/... */
};
/* Strings are borrowed from the path. Only for one without http_path_fault(). */
struct k8s_path k8s_path_parse(struct str path);
bool k8s_group_is_built_in(struct str group);

#endif
