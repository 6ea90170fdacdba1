"""Judges events by the published schema of OCSF: tests/lib/ocsf.json has the names, types and requirements of what an export uses."""
import json
import os

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ocsf.json"), encoding="utf-8") as f:
    SCHEMA = json.load(f)
BASIC = {"string_t": str, "integer_t": int, "long_t": int, "boolean_t": bool, "timestamp_t": int}


def check_value(path, rule, v):
    kind = rule["t"]
    if kind in SCHEMA["objects"]:
        return check_object(path, SCHEMA["objects"][kind], v)
    if kind in ("object", "unmapped"):
        return [] if isinstance(v, dict) else ["%s: must be an object" % path]
    if kind not in BASIC:
        return ["%s: of type %s, which no test knows" % (path, kind)]
    if not isinstance(v, BASIC[kind]) or (isinstance(v, bool) and kind != "boolean_t"):
        return ["%s: %r is no %s" % (path, v, kind)]
    if "enum" in rule and v not in rule["enum"]:
        return ["%s: %r is none of %r" % (path, v, rule["enum"])]
    return []


def check_object(path, rules, o):
    if not isinstance(o, dict):
        return ["%s: must be an object" % path]
    bad = ["%s.%s: not in the schema" % (path, k) for k in o if k not in rules["attributes"]]
    bad += ["%s.%s: required" % (path, k) for k, r in rules["attributes"].items() if r.get("req") and k not in o]
    if "at_least_one" in rules and not any(k in o for k in rules["at_least_one"]):
        bad.append("%s: needs one of %r" % (path, rules["at_least_one"]))
    for k, v in o.items():
        rule = rules["attributes"].get(k)
        if rule is None:
            continue
        if bool(rule.get("list")) != isinstance(v, list):
            bad.append("%s.%s: %s a list" % (path, k, "must be" if rule.get("list") else "must not be"))
            continue
        for i, x in enumerate(v if isinstance(v, list) else [v]):
            bad += check_value("%s.%s" % (path, k) + ("[%d]" % i if isinstance(v, list) else ""), rule, x)
    return bad


def check(event):
    """What is wrong with an event: a list of sentences."""
    rules = SCHEMA["classes"].get(str(event.get("class_uid")))
    if rules is None:
        return ["class_uid %r is of no class that is used" % event.get("class_uid")]
    rules = dict(rules, attributes=dict(rules["attributes"]))
    for k in ("class_uid", "category_uid"):  # of a class these are one number
        rules["attributes"][k] = {"t": "integer_t", "req": 1, "enum": [rules["category_uid"] if k == "category_uid" else event["class_uid"]]}
    bad = check_object("event", rules, event)
    if event.get("type_uid") != event["class_uid"] * 100 + event.get("activity_id", -1):
        bad.append("type_uid is %r" % event.get("type_uid"))
    if event.get("metadata", {}).get("version") != SCHEMA["version"]:
        bad.append("metadata.version is %r" % event.get("metadata", {}).get("version"))
    if event.get("activity_id") == 99 and not event.get("activity_name"):
        bad.append("activity 99 without a name")
    return bad
