#!/usr/bin/python3
"""What whoever holds the log's key could still not do: here they rewrite records and sign the whole log anew, so that it verifies; `log
verify --deep` holds what people signed, and what was sealed, against it."""
import base64
import hashlib
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "..")]
import verify_log
from harness import CLI, HostRun, Pg, Stack, Tap, Temp, run, wait_for
from libpq import Conn
from notes import Key

tap, temp = Tap(), Temp("log-deep")
T = temp.path
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY, v int); INSERT INTO orders SELECT g, g FROM generate_series(1,50) g;"
         "CREATE TABLE more(id int); INSERT INTO more VALUES (1); ALTER TABLE orders OWNER TO agent; ALTER TABLE more OWNER TO agent;")
st = Stack(temp, pg)
hr = HostRun(st)
c = Conn(hr.dsn(pg))
rid = re.search(r"request ([a-z2-7]{26})", c.query("DELETE FROM orders WHERE id <= 3").hint)[1]
tap.eq([st.sign("approve", rid, p).returncode for p in ("dana", "omar")], [0, 0], "two people sign a delete")
tap.eq(c.query("DELETE FROM orders WHERE id <= 3").tag, "DELETE 3", "which is done")
other = re.search(r"request ([a-z2-7]{26})", c.query("DELETE FROM more").hint)[1]
r = st.cli("deny", other, "--as", "dana", "--key", st.key("dana"), "--yes", "--reason", "not today")
tap.ok(r.returncode == 0, "another is denied, with a note", r.stdout)
c.close()
hr.end()
wait_for(lambda: st.records("run.end"), 10, "the run's end")
st.stop()


def deep(d, *more):
    r = run([CLI, "log", "verify", d, "--deep", *more])
    return r.returncode, sorted((int(s), w) for s, w in re.findall(r"^TAMPER at seq (\d+)[^:]*: ([\w-]+):", r.stdout, re.M)), r.stdout


rc, words, out = deep(st.state)
tap.ok((rc, words) == (0, []) and "3 signatures of people hold" in out and re.search(r"^[1-9]\d* sealed contents opened and hold, 0 are erased$", out, re.M),
       "the log as it is holds: contents and signatures", out)

# --- rewritten by a holder of the key ------------------------------------------------------------------------
with open(st.state + "/keys/log/seed", "rb") as f:
    KEY = Key(f.read(), b"test.example/log")
with open(st.state + "/keys/log/vkey", "rb") as f:
    tap.eq(f.read().strip(), KEY.vkey, "the log's key is in wrong hands")
n = [0]


def line_of(body):
    return b'{"body":' + body + b',"hash":"' + hashlib.sha256(b"\0" + body).hexdigest().encode() + b'"}\n'


def rewritten(change):
    """A copy whose records went through change(record), chained and signed anew."""
    n[0] += 1
    d = "%s/copy-%d" % (T, n[0])
    shutil.copytree(st.state, d, ignore=lambda at, names: [x for x in names if x == "control"] if at == st.state else [])
    seg = d + "/log/seg/%020d.jsonl" % 0
    tree, heads, prev, lines = verify_log.Tree(), {}, "0" * 64, []
    with open(seg, "rb") as f:
        bodies = [json.loads(x)["body"] for x in f]
    for b in bodies:
        change(b)
        b["prev"] = prev
        line = line_of(json.dumps(b, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode())
        prev = line[-67:-3].decode()
        lines.append(line)
        tree.push(bytes.fromhex(prev))
        heads[tree.size] = tree.root()
    for path, data in [(seg, b"".join(lines))] + [
            (d + "/log/cp/" + x, KEY.note(b"%s\n%d\n%s\n" % (KEY.name, int(x), base64.b64encode(heads[int(x)])))) for x in os.listdir(d + "/log/cp")]:
        os.chmod(path, 0o600)
        with open(path, "wb") as f:
            f.write(data)
    shutil.copy(d + "/log/cp/" + sorted(os.listdir(d + "/log/cp"))[-1], d + "/log/checkpoint")
    return d


def plain(d):
    return run([CLI, "log", "verify", d]).returncode


d = rewritten(lambda b: None)
tap.eq((plain(d), deep(d)[:2]), (0, (0, [])), "written and signed again as it was, it is the same log")
SEQ = {}
for r in st.records():
    SEQ.setdefault(r["type"], r["seq"])


def of(kind, **fields):
    def change(b):
        if b["type"] == kind and b["seq"] == SEQ[kind]:
            for k, v in fields.items():
                if v is None:
                    b["data"].pop(k, None)
                else:
                    b["data"][k] = v(b["data"][k]) if callable(v) else v
    return change


grants, denial = [r["seq"] for r in st.records("approval.grant")], SEQ["approval.deny"]
# What people sign names the log's head: whatever stands before is pinned by each later signature as well.
for what, change, want in [
        ("the target", of("approval.request", target="hr-db"), grants + [denial]),
        ("the rule", of("approval.request", rule="none"), grants + [denial]),
        ("the agent", of("approval.request", agent="another"), grants + [denial]),
        ("the owner", of("approval.request", owner="dana"), grants + [denial]),
        ("the effects", of("approval.request", effects=["read"]), grants + [denial]),
        ("the action", of("approval.request", action="0" * 64), grants + [denial]),
        ("what it may do at most", of("approval.request", max_rows=1), grants + [denial]),
        ("until when it was to be signed", of("approval.request", approve_by="2030-01-01T00:00:00.000000Z"), grants + [denial]),
        ("for how long it may be used", of("approval.request", use_within=lambda x: x + 1), grants + [denial]),
        ("the person who signed", of("approval.grant", person="omar"), [grants[0], denial]),
        ("the role", of("approval.grant", role="oncall"), [grants[0], denial]),
        ("a note", of("approval.grant", note="as agreed"), [grants[0], denial]),
        ("the key that signed", of("approval.grant", key="SHA256:" + "A" * 43), [grants[0], denial]),
        ("a signature", of("approval.grant", signature=lambda s: s.replace(s[60], "A" if s[60] != "A" else "B", 1)), [grants[0], denial]),
        ("the hash of what was signed", of("approval.grant", statement="0" * 64), [grants[0], denial]),
        ("the id of what was signed", of("approval.grant", id="a" * 26), [grants[0], denial]),
        ("the note of a denial", of("approval.deny", note="any day"), [denial])]:
    d = rewritten(change)
    tap.eq((plain(d), deep(d)[:2]), (0, (1, [(s, "signature") for s in want])), "%s, rewritten and signed anew: it verifies, and the people's signatures do not" % what)
d = rewritten(lambda b: b["type"] == "approval.deny" and (b.update(type="approval.grant"), b["data"].pop("reason", None)))
tap.eq((plain(d), deep(d)[:2]), (0, (1, [(denial, "signature")])), "a denial that is made a grant is none")


def ref(b):
    d = b["data"]
    return {"run.start": d.get("task"), "policy.load": d.get("bundle"), "approval.request": d.get("show"),
            "action": d.get("request", {}).get("head")}.get(b["type"])


held = [r["seq"] for r in st.records() if ref(r) and r["type"] == "action"]
for what, field, value in [("commitment", "c", "0" * 64), ("length", "len", 1)]:
    def change(b):
        if b["seq"] == held[0]:
            ref(b)[field] = value
    d = rewritten(change)
    tap.eq((plain(d), deep(d)[:2]), (0, (1, [(held[0], "content")] + [(s, "signature") for s in grants + [denial]])), "another %s of sealed content: what was sealed is not that" % what)

# --- keys of what is sealed -----------------------------------------------------------------------------------
d = rewritten(lambda b: None)
keys = d + "/keys/blob/"
run_key = [x for x in os.listdir(keys) if x.startswith("r-")][0]
with open(keys + run_key, "rb") as f:
    right = f.read()
with open(keys + run_key, "wb") as f:
    f.write(bytes(32))
rc, words, out = deep(d)
tap.ok(rc == 1 and words and {w for _, w in words} == {"content"}, "with another key nothing of that run opens, and it is said", words)
os.unlink(keys + run_key)
rc, words, out = deep(d)
tap.ok(rc == 3 and not words and "no record says that it was erased" in out and "+ " in out.splitlines()[-1] and "not looked into" in out.splitlines()[-1],
       "a key that is gone without a record: whole, but not all looked into", out)
tap.ok("2 signatures could not be held" in out or "3 signatures could not be held" in out, "nor can what people were shown be built again", out)
with open(keys + run_key, "wb") as f:
    f.write(right)
tap.eq(deep(d)[:2], (0, []), "with the right key it holds again")
rc, words, out = deep(d + "/log", "--keys", d + "/keys/log/vkey")
tap.ok((rc, words) == (3, []) and "no keys are readable here" in out, "with public keys alone it says how much it did not look into", out)
tap.eq(run([CLI, "log", "verify", d + "/log", "--keys", d + "/keys/log/vkey"]).returncode, 0, "which without --deep nobody asked for")
r = run([CLI, "log", "verify", d, "--progress"])
tap.ok(r.returncode == 0 and "1 records, segment 1 of 1" in r.stdout, "--progress tells how far it is", r.stdout)
tap.ok("records, segment" not in run([CLI, "log", "verify", d]).stdout, "and without it nothing is told where no terminal is")
tap.done()
