#!/usr/bin/python3
"""Every case of tests/cases/field-cases.json has the tests that it names, and every test that names a case is named there: a case
whose test is gone, or a test that nobody finds by its case, fails here."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import TOP, Tap

t = Tap()
with open(TOP + "/tests/cases/field-cases.json", encoding="utf-8") as f:
    CASES = {c["id"]: c for c in json.load(f)["cases"]}
ID = r"(?:APR|AUD|AWS|CRD|ENV|FRZ|GIT|GQL|INC|K8S|MCP|NET|PG|POL|SBX|SQL|TLS)-[0-9]{2}"


def named(path):
    """Cases that a test is of: what its sentences begin with; in C, what its comments name."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return set(re.findall(r"[\"'](%s): " % ID if path.endswith(".t") else r"(?<![\w-])(%s)\b" % ID, text))


FILES = sorted(p for d, ext in (("system", "t"), ("incidents", "t"), ("interop", "t"), ("unit", "c"))
               for p in glob.glob("%s/tests/%s/*.%s" % (TOP, d, ext)) if os.path.basename(p) != os.path.basename(__file__))
OF = {os.path.relpath(p, TOP): named(p) for p in FILES}
t.ok(len(CASES) >= 40 and all(c["input"] and c["expected"] and c["area"] for c in CASES.values()), "each case has an input and what is expected",
     len(CASES))
for i, c in sorted(CASES.items()):
    t.eq((bool(c["tests"]), [p for p in c["tests"] if i not in OF.get(p, ())]), (True, []), "%s, %s, is shown by its tests" % (c["area"], i))
t.eq(sorted((p, i) for p, ids in OF.items() for i in ids if i in CASES and p not in CASES[i]["tests"]), [],
     "each test that names one of these cases is named by it")
NO_CASE = {"INC-77"}  # an incident that two tests make up
t.eq(sorted({i for ids in OF.values() for i in ids if re.match("APR|FRZ|POL|INC|PG|SQL", i)} - set(CASES) - NO_CASE), [],
     "and of approvals, freezes, policies, incidents and SQL none names a case that is not there")
t.eq(sorted(i for i in ("APR-01", "APR-02", "APR-03", "APR-04", "FRZ-01", "FRZ-02", "FRZ-03", "FRZ-04", "FRZ-07", "POL-01") if i not in CASES), [],
     "all cases of approvals, freezes and policies are there")
t.done()
