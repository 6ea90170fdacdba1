#!/usr/bin/python3
"""GraphQL over the real wire (GQL-01 of the field cases): what an operation does, not its first word, is judged."""
import gzip
import hashlib
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Http, HostRun, Stack, Tap, Temp, wait_for
from origin import Ca, GraphQl, Origin
from rawhttp import Closed

tap = Tap()
temp = Temp("graphql")
ca = Ca(temp.path + "/ca")
o, other = Origin(temp.path, "infra.test", ca=ca), Origin(temp.path, "undeclared.test", ca=ca)
KNOWN = "query Known{volumes{id}}"
KNOWN_DELETE = 'mutation Gone{volumeDelete(id:"vol-test-2"){id}}'
sha = lambda s: hashlib.sha256(s.encode()).hexdigest()
infra = Http(o, graphql={"paths": ["/graphql", "/api/v2"], "effects": {"mutation.volumeDelete": ["drop"], "mutation.volumeCreate": ["write"]},
                         "persisted": {sha(KNOWN): KNOWN, sha(KNOWN_DELETE): KNOWN_DELETE}})
undeclared = Http(other)
g, g2, g3 = GraphQl(o, [infra.secret]), GraphQl(other, [undeclared.secret]), GraphQl(o, [infra.secret], path="/api/v2")
g.persisted = {sha(KNOWN): KNOWN, sha(KNOWN_DELETE): KNOWN_DELETE}
# Queries allowed, whatever else it may be needs a person.
st = Stack(temp, None, http={"infra": infra, "undeclared": undeclared}, policy={"rules": [
    {"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
    {"id": "work", "permit": {"effects": {"only": ["@data", "@change", "@destructive"]}}},
    {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
    {"id": "a-person", "require": {"effects": {"any": ["@change", "@destructive"]}},
     "approve": [{"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m"}]})
hr = HostRun(st)
JSON = [("Content-Type", "application/json")]


def ask(method, path, body=None, fields=JSON, target="infra", how="direct"):
    x = getattr(hr, how)(target)
    try:
        return x.ask(method, path, st.http[target].origin.authority, fields if body is not None else (), body)
    except (Closed, OSError):
        return None
    finally:
        x.close()


def gql(query, **kw):
    return json.dumps(dict({"query": query}, **kw)).encode()


def judged(name, want, *args, effects=None, **kw):
    """want: allow, needs_approval, deny. What it is judged to be, and that it arrives only if allowed."""
    for x in (o, other):
        x.forget()
    done = len(g.executed) + len(g2.executed) + len(g3.executed)
    before = len(st.acts())
    r = ask(*args, **kw)
    acts = st.acts()[before:]
    ran = len(g.executed) + len(g2.executed) + len(g3.executed) - done
    d = acts[0]["decision"]["verdict"] if len(acts) == 1 else [a["decision"]["verdict"] for a in acts]
    ok = (d in want.split("|") and r is not None and (r.status == 200) == (d == "allow") and
          (len(o.arrivals) + len(other.arrivals) > 0) == (d == "allow") and (ran > 0) == (d == "allow"))
    if ok and effects is not None:
        ok = set(effects) <= set(acts[0]["request"]["effects"])
    tap.ok(ok, "%s: %s" % (name, want), (d, r, ran, acts and acts[0]["request"].get("effects"), acts and acts[0]["decision"].get("reason")))
    return r, acts[0] if acts else None


DELETE = 'volumeDelete(id:"vol-prod"){id}'
# --- a to i ---------------------------------------------------------------------------------------------------
judged("GQL-01: a: a comment before the mutation", "needs_approval", "POST", "/graphql", gql("#c\nmutation{mergePullRequest(input:{})}"), effects=["write"])
judged("GQL-01: b: a fragment first, the mutation after", "needs_approval", "POST", "/graphql", gql("fragment F on Mutation{%s} mutation{...F}" % DELETE), effects=["drop"])
judged("GQL-01: c: query A and mutation B, operationName B", "needs_approval", "POST", "/graphql",
       gql("query A{viewer{login}} mutation B{%s}" % DELETE, operationName="B"), effects=["drop"])
judged("GQL-01: c: the same with operationName A is a query", "allow|needs_approval|deny", "POST", "/graphql",
       gql("query A{viewer{login}} mutation B{%s}" % DELETE, operationName="A"))
judged("GQL-01: c: two operations and no name", "deny", "POST", "/graphql", gql("query A{viewer{login}} mutation B{%s}" % DELETE))
judged("GQL-01: d: a list of two, the second a mutation", "needs_approval|deny", "POST", "/graphql",
       b"[" + gql("{viewer{login}}") + b"," + gql("mutation{%s}" % DELETE) + b"]")
judged("GQL-01: e: the key query twice", "deny", "POST", "/graphql", b'{"query":"{viewer{login}}","query":"mutation{%s}"}' % DELETE.replace('"', '\\"').encode())
judged("GQL-01: e: and with an escape in one of them", "deny", "POST", "/graphql", b'{"query":"{viewer{login}}","qu\\u0065ry":"mutation{%s}"}' % DELETE.replace('"', '\\"').encode())
judged("GQL-01: f: by GET", "needs_approval|deny", "GET", "/graphql?query=" + urllib.parse.quote("mutation{%s}" % DELETE))
judged("GQL-01: f: by GET with + for a space", "needs_approval|deny", "GET", "/graphql?query=" + urllib.parse.quote_plus("mutation M {%s}" % DELETE))
judged("GQL-01: g: application/graphql", "needs_approval|deny", "POST", "/graphql", ("mutation{%s}" % DELETE).encode(), [("Content-Type", "application/graphql")])
judged("GQL-01: h: a persisted query that nobody registered", "deny", "POST", "/graphql",
       json.dumps({"extensions": {"persistedQuery": {"version": 1, "sha256Hash": sha("mutation{x}")}}}).encode())
judged("GQL-01: h: a registered one that reads", "allow", "POST", "/graphql",
       json.dumps({"extensions": {"persistedQuery": {"version": 1, "sha256Hash": sha(KNOWN)}}}).encode(), effects=["read"])
judged("GQL-01: h: a registered one that deletes", "needs_approval", "POST", "/graphql",
       json.dumps({"extensions": {"persistedQuery": {"version": 1, "sha256Hash": sha(KNOWN_DELETE)}}}).encode(), effects=["drop"])
judged("GQL-01: i: a subscription is no query", "needs_approval|deny", "POST", "/graphql", gql("subscription{volumes{id}}"))
# --- a token that was found -----------------------------------------------------------------------------------
FOUND = "infra-4f1d9c0be2a87756"
r, a = judged("INC-02: with a token that was found", "deny", "POST", "/graphql", gql("mutation{%s}" % DELETE), JSON + [("Authorization", "Bearer " + FOUND)])
tap.ok(r is not None and r.status == 403 and a["request"]["http"]["found"]["what"] == "credential_foreign" and FOUND not in json.dumps(st.records()),
       "INC-02: that is said, and the token stands nowhere in the log", (r and r.body, a and a["request"].get("http")))
r, a = judged("INC-02: without it", "needs_approval", "POST", "/graphql", gql("mutation{%s}" % DELETE), effects=["drop"])
tap.ok(r is not None and r.status == 403 and any(p in r.body.decode() for p in st.pending()), "INC-02: is refused with the request that people can sign", r and r.body)
# --- the nearest that is allowed ------------------------------------------------------------------------------
judged("GQL-01: {viewer{login}}", "allow", "POST", "/graphql", gql("{viewer{login}}"), effects=["read"])
judged("GQL-01: a variable whose text is a mutation", "allow", "POST", "/graphql",
       gql("query($s:String){x(s:$s)}", variables={"s": "mutation{volumeDelete(id:1){id}}"}), effects=["read"])
judged("a string that says mutation", "allow", "POST", "/graphql", gql('{x(s:"mutation { volumeDelete }")}'))
judged("a block string and a comment that say it", "allow", "POST", "/graphql", gql('# mutation\nquery Q { x(s: """ mutation { volumeDelete } """) }'))
judged("an alias called mutation", "allow", "POST", "/graphql", gql("{mutation:viewer{login}}"))
judged("a fragment of a query", "allow", "POST", "/graphql", gql("query{...F} fragment F on Query{viewer{login}}"))
judged("an inline fragment and directives", "allow", "POST", "/graphql", gql("query Q($a:Boolean!){... on Query @include(if:$a){viewer{login}}}", variables={"a": True}))
judged("a list of queries", "allow", "POST", "/graphql", b"[" + gql("{viewer{login}}") + b"," + gql("{volumes{id}}") + b"]")
judged("a query by GET", "allow", "GET", "/graphql?query=" + urllib.parse.quote("{volumes{id}}"))
judged("a query as application/graphql", "allow|deny", "POST", "/graphql", b"{viewer{login}}", [("Content-Type", "application/graphql")])
judged("a query with a charset, chunked", "allow", "POST", "/graphql", gql("{viewer{login}}"), [("Content-Type", "application/json; charset=utf-8")])
# --- what hides ---------------------------------------------------------------------------------------------
judged("an alias of the deletion", "needs_approval", "POST", "/graphql", gql("mutation{viewer:%s}" % DELETE), effects=["drop"])
judged("an inline fragment around it", "needs_approval", "POST", "/graphql", gql("mutation{... on Mutation{%s}}" % DELETE), effects=["drop"])
judged("nested fragments", "needs_approval", "POST", "/graphql",
       gql("mutation{...A} fragment A on Mutation{...B} fragment B on Mutation{x:%s}" % DELETE), effects=["drop"])
judged("the deletion beside a creation", "needs_approval", "POST", "/graphql", gql('mutation{a:volumeCreate(name:"n"){id} b:%s}' % DELETE), effects=["drop"])
judged("behind @skip", "needs_approval", "POST", "/graphql",
       gql("mutation($s:Boolean!){%s @skip(if:$s)}" % DELETE.replace("{id}", ""), variables={"s": False}))
judged("behind a byte order mark", "needs_approval|deny", "POST", "/graphql", b"\xef\xbb\xbf" + gql("mutation{%s}" % DELETE))
judged("a fragment that holds itself", "deny", "POST", "/graphql", gql("query{...A} fragment A on Query{...A}"))
judged("a fragment that is not there", "deny", "POST", "/graphql", gql("query{...A}"))
judged("what does not parse", "deny", "POST", "/graphql", gql("query{viewer{"))
judged("a thousand levels", "deny", "POST", "/graphql", gql("query" + "{a" * 1000 + "}" * 1000))
judged("JSON that is none", "deny", "POST", "/graphql", b'{"query": "{viewer{login}}"')
judged("bytes behind the JSON", "deny", "POST", "/graphql", gql("{viewer{login}}") + b' {"query":"x"}')
judged("an empty body", "deny", "POST", "/graphql", b"")
judged("another content type", "deny|needs_approval", "POST", "/graphql", gql("mutation{%s}" % DELETE), [("Content-Type", "text/plain")])
judged("multipart", "deny|needs_approval", "POST", "/graphql",
       b'--b\r\nContent-Disposition: form-data; name="operations"\r\n\r\n' + gql("mutation{%s}" % DELETE) + b"\r\n--b--\r\n",
       [("Content-Type", "multipart/form-data; boundary=b")])
judged("a form", "deny|needs_approval", "POST", "/graphql", b"query=" + urllib.parse.quote("mutation{%s}" % DELETE).encode(),
       [("Content-Type", "application/x-www-form-urlencoded")])
judged("query in the URL and in the body", "deny|needs_approval", "POST", "/graphql?query=" + urllib.parse.quote("mutation{%s}" % DELETE), gql("{viewer{login}}"))
judged("a compressed body", "deny", "POST", "/graphql", gzip.compress(gql("mutation{%s}" % DELETE)), JSON + [("Content-Encoding", "gzip")])
judged("UTF-16", "deny", "POST", "/graphql", gql("mutation{%s}" % DELETE).decode().encode("utf-16"), [("Content-Type", "application/json; charset=utf-16")])
judged("PUT", "deny|needs_approval", "PUT", "/graphql", gql("mutation{%s}" % DELETE))
judged("another declared path", "needs_approval", "POST", "/api/v2", gql("mutation{%s}" % DELETE), effects=["drop"])
judged("another declared path: a query", "allow", "POST", "/api/v2", gql("{viewer{login}}"))
# A target whose policy does not speak of GraphQL: the last segment of a path tells.
other.on("/v1/GraphQL", g2.answer)
judged("undeclared: a mutation", "needs_approval|deny", "POST", "/graphql", gql("mutation{%s}" % DELETE), target="undeclared")
judged("undeclared, another case: a mutation", "needs_approval|deny", "POST", "/v1/GraphQL", gql("mutation{%s}" % DELETE), target="undeclared")
judged("undeclared: a query", "allow", "POST", "/graphql", gql("{viewer{login}}"), target="undeclared")
# A body over the inline limit: chunked, through a sealed file.
big = gql("query($s:String){x(s:$s)}", variables={"s": "x" * 200000})
judged("a query of 200 KB", "allow", "POST", "/graphql", big)
judged("a mutation of 200 KB", "needs_approval", "POST", "/graphql", gql("mutation{a:%s #%s\n}" % (DELETE, "x" * 200000)), effects=["drop"], how="tunnel")
judged("a query over 1 MiB", "deny", "POST", "/graphql", gql("query($s:String){x(s:$s)}", variables={"s": "x" * (1 << 20)}))
tap.eq(g.volumes, ["vol-prod", "vol-backup", "vol-test-1", "vol-test-2"], "after all of it every volume is there")
tap.eq([e for x in (g, g2, g3) for e in x.executed if e[0] != "query"], [], "the service executed nothing but queries")

# --- with a signature: once, exactly this ---------------------------------------------------------------------
TEST = gql('mutation{volumeDelete(id:"vol-test-1"){id}}')
r, act = judged("the deletion of one test volume", "needs_approval", "POST", "/graphql", TEST, effects=["drop"])
rid = act["decision"]["approval"]
shown = st.cli("show", rid).stdout
tap.ok("volumeDelete" in shown and "vol-test-1" in shown and "infra" in shown, "who signs is shown the mutation", shown)
tap.ok("cfph_" not in shown and infra.secret not in shown, "and no credential")
r = st.sign("approve", rid, "olivia")
tap.ok(r.returncode != 0, "the owner's own signature does not count", r.stdout)
r = st.sign("approve", rid, "omar")
tap.ok(r.returncode == 0, "a person on call signs", r.stdout)
judged("another volume under that signature", "needs_approval", "POST", "/graphql", TEST.replace(b"vol-test-1", b"vol-prod"), effects=["drop"])
judged("the same with another variable part", "needs_approval", "POST", "/graphql", gql('mutation{volumeDelete(id:"vol-test-1"){id}}', variables={"x": 1}))
r, act = judged("the signed one", "allow", "POST", "/graphql", TEST, effects=["drop"])
tap.eq((g.volumes, act and act["decision"].get("approval")), (["vol-prod", "vol-backup", "vol-test-2"], rid), "one volume is gone, by that request")
judged("once more", "needs_approval", "POST", "/graphql", TEST, effects=["drop"])
tap.eq([e[2] for e in g.executed if e[0] == "mutation"], [{"id": "vol-test-1"}], "the service executed exactly one mutation")
out = st.outcome(act["action"])
tap.ok(out is not None and out["status"] == "ok", "and its outcome is on the record", out)
hr.end()
r = st.cli("replay", "whatif")
tap.ok("100 %" in r.stdout and r.returncode == 0, "re-judged, all of this is unchanged", r.stdout[-1500:])
tap.ok(wait_for(lambda: "VERIFIED" in st.verify().stdout, 8), "and the log verifies", st.verify().stdout)
tap.done()
