"""Judges OTLP log requests in their JSON encoding: every message, field and type of the protocol that may stand there, and nothing else."""
import re

I64 = "i64"   # a decimal string
U64 = "u64"
KV = ["KeyValue"]
MESSAGES = {
    "ExportLogsServiceRequest": {"resourceLogs": ["ResourceLogs"]},
    "ResourceLogs": {"resource": "Resource", "scopeLogs": ["ScopeLogs"], "schemaUrl": str},
    "Resource": {"attributes": KV, "droppedAttributesCount": int},
    "ScopeLogs": {"scope": "InstrumentationScope", "logRecords": ["LogRecord"], "schemaUrl": str},
    "InstrumentationScope": {"name": str, "version": str, "attributes": KV, "droppedAttributesCount": int},
    "LogRecord": {"timeUnixNano": U64, "observedTimeUnixNano": U64, "severityNumber": int, "severityText": str, "body": "AnyValue",
                  "attributes": KV, "droppedAttributesCount": int, "flags": int, "traceId": str, "spanId": str, "eventName": str},
    "KeyValue": {"key": str, "value": "AnyValue"},
    "AnyValue": {"stringValue": str, "boolValue": bool, "intValue": I64, "doubleValue": float, "arrayValue": "ArrayValue",
                 "kvlistValue": "KeyValueList", "bytesValue": str},
    "ArrayValue": {"values": ["AnyValue"]},
    "KeyValueList": {"values": KV},
}


def check(message, v, path="$"):
    if isinstance(message, list):
        if not isinstance(v, list):
            return ["%s: must be a list" % path]
        return [x for i, e in enumerate(v) for x in check(message[0], e, "%s[%d]" % (path, i))]
    if message in (I64, U64):
        ok = isinstance(v, str) and re.fullmatch(r"-?[0-9]{1,19}" if message == I64 else r"[0-9]{1,20}", v)
        return [] if ok else ["%s: %r is no 64-bit integer as text" % (path, v)]
    if isinstance(message, type):
        return [] if type(v) is message else ["%s: %r is no %s" % (path, v, message.__name__)]
    if not isinstance(v, dict):
        return ["%s: must be a %s" % (path, message)]
    fields = MESSAGES[message]
    bad = ["%s.%s: no field of %s" % (path, k, message) for k in v if k not in fields]
    if message == "AnyValue" and len(v) != 1:
        bad.append("%s: an AnyValue has one value, not %r" % (path, sorted(v)))
    if message == "LogRecord" and not 1 <= v.get("severityNumber", 0) <= 24:
        bad.append("%s: severityNumber %r" % (path, v.get("severityNumber")))
    if message == "LogRecord" and (len({a["key"] for a in v["attributes"]}) != len(v["attributes"]) or not v.get("eventName")):
        bad.append("%s: attributes twice, or no eventName" % path)
    return bad + [x for k, e in v.items() if k in fields for x in check(fields[k], e, path + "." + k)]


def request(v):
    """What is wrong with a request: a list of sentences."""
    return check("ExportLogsServiceRequest", v)


def records(v):
    """(log record, attributes as a dict of AnyValue's one value) of a request."""
    for rl in v["resourceLogs"]:
        for sl in rl["scopeLogs"]:
            for r in sl["logRecords"]:
                yield r, {a["key"]: next(iter(a["value"].values())) for a in r["attributes"]}
