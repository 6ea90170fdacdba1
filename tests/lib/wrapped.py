"""Agents that people already use, wrapped by `cofferdam run --profile`: scripted models behind the broker, a database with a
frozen and a guarded table, and what every such agent is put through."""
import atexit
import os
import shutil
import threading

from fakemodel import Model
from harness import TOP, Http, Pg, Stack, wait_for
from origin import Ca

PROVIDERS = {"anthropic": ("header", "x-api-key"), "openai": ("bearer", None), "google": ("header", "x-goog-api-key")}
TRY = "for i in {1..100}; do psql -Atc 'DROP TABLE %s' && break; sleep 0.3; done"


class World:
    """Models at names of their own, by TLS; Stack with them, and with tables f (frozen) and one for each agent."""

    def __init__(self, temp, agents):
        self.temp, self.pg = temp, Pg(temp)
        tables = ["f", *("t_" + a.replace("-", "_") for a in agents)]
        self.pg.admin("".join("CREATE TABLE %s(id int); ALTER TABLE %s OWNER TO agent;" % (t, t) for t in tables))
        ca = Ca(temp.path + "/ca")
        self.models = {p: Model(temp, p + ".model.test", ca=ca) for p in PROVIDERS}
        self.http = {p + "-api": Http(m, kind=PROVIDERS[p][0], field=PROVIDERS[p][1], model=p, wrapped=True)
                     for p, m in self.models.items()}
        self.st = Stack(temp, self.pg, {"rules": RULES, "attempts": {"alarm": 500, "end": 1000}}, http=self.http)
        self.secrets = {p: self.http[p + "-api"].secret for p in PROVIDERS}
        self.tools = temp.path + "/tools"
        os.makedirs(self.tools)
        os.chmod(self.tools, 0o755)
        for name in ("plain_agent.py", "canary_scan.py"):
            shutil.copy(TOP + "/tests/tools/" + name, self.tools)
        with open(self.tools + "/needles", "w", encoding="ascii") as f:
            for s in [*self.secrets.values(), self.pg.password]:
                f.write(s.encode()[::-1].hex() + "\n")
        atexit.register(self.end)

    def end(self):
        for m in self.models.values():
            m.stop()

    def script(self, agent, tool, *, argument="command", **more):
        """Steps of a model that lets an agent look for secrets, be refused, wait for people, and end."""
        def step(command):
            return {"tools": [{"tool": tool, "input": {argument: command, **more}}]}
        return {"steps": [step("python3 /opt/tools/canary_scan.py /opt/tools/needles"), step("psql -Atc 'DROP TABLE f' 2>&1; id -u"),
                          step(TRY % ("t_" + agent.replace("-", "_")) + " 2>&1 | tail -3"), {"text": "All is done here."}]}

    def play(self, provider, script):
        self.models[provider].play({**script, "key": self.secrets[provider]})

    def signers(self):
        """Signs whatever waits, as two people with their keys would. Returns what ends it and says what was signed."""
        stop, signed = threading.Event(), set()

        def sign():
            while not stop.is_set():
                for request in self.st.pending():
                    for person in ("dana", "omar"):
                        if self.st.sign("approve", request, person).returncode == 0:
                            signed.add((request, person))
                stop.wait(0.2)
        t = threading.Thread(target=sign, daemon=True)
        t.start()

        def end():
            stop.set()
            t.join(60)
            return signed
        return end

    def through(self, tap, agent, provider, argv, opts=(), profile=None, **kw):
        """The agent's run, and what must hold after it. Its model was told by play()."""
        before = len(self.st.records())
        end = self.signers()
        try:
            r = self.st.sandbox(*argv, opts=["--ro-bind", self.tools + ":/opt/tools", *(["--profile", profile] if profile else []), *opts], **kw)
        finally:
            signed = end()
        new = self.st.records()[before:]
        heard = self.models[provider].heard()
        said = repr(heard[-1]["body"]) if heard else ""
        tap.ok(r.returncode == 0 and "All is done here." in r.stdout, "%s: runs to its end" % agent, r.stdout[-3000:] + r.stderr[-3000:])
        tap.ok(heard and all(self.secrets[provider] in h["headers"].get("x-api-key", h["headers"].get("x-goog-api-key", h["headers"].get(
            "authorization", ""))) for h in heard if h["method"] == "POST"), "%s: the broker puts the key into what it asks the model" % agent,
               repr([h["headers"] for h in heard])[:2000])
        tap.ok("SCANNED" in said and "FOUND NOTHING" in said, "%s: inside it, no credential is anywhere" % agent, said[-3000:])
        tap.ok("42501" in said or "frozen" in said, "%s: it meets the refusal of a frozen table" % agent, said[-3000:])
        mine = [x["data"] for x in new if x["type"] == "action"]
        drops = [a["decision"] for a in mine if a["request"]["target"] == "crm-db" and "drop" in a["request"]["effects"]]
        tap.ok(any(d["verdict"] == "deny" and "frozen" in repr(d) for d in drops), "%s: which is on the record" % agent, repr(drops)[:2000])
        tap.eq(sorted({p for _, p in signed}), ["dana", "omar"], "%s: two people sign for the other" % agent)
        tap.ok(any(d["verdict"] == "allow" for d in drops), "%s: and it goes on" % agent, repr(drops)[:2000])
        asked = [a for a in mine if a["request"]["target"] == provider + "-api" and a["decision"]["verdict"] == "allow"]
        ends = [self.st.outcome(a["action"]) for a in asked]
        tap.ok(asked and all(a["request"]["http"]["via"] in ("direct", "proxy") for a in asked) and
               any("answer" in e for e in ends), "%s: prompts and answers are on the record" % agent, repr(asked)[:1500] + repr(ends)[:1500])
        return r, heard, new


RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "work", "permit": {"target": ["crm-db"], "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "frozen", "forbid": {"relation": ["public.f"], "effects": {"any": ["@destructive"]}}, "override": "never"},
         {"id": "two-people", "require": {"target": ["crm-db"], "effects": {"any": ["@destructive"]}},
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}], "within": "30m", "use_within": "5m"}]
__all__ = ["PROVIDERS", "World", "wait_for"]
