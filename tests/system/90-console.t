#!/usr/bin/python3
"""The console in a real browser, over the real broker and a real PostgreSQL: people enrol a passkey by a signed invitation,
sign in, see what waits as it comes, approve and deny; what two people approved passes once. The browser is headless Chromium,
the passkeys are its virtual authenticators'."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import console
from browser import Browser
from harness import HostRun, Pg, Stack, Tap, Temp, wait_for
from libpq import Conn
from npm import install

tap = Tap()
r = install()
if not tap.ok(r.returncode == 0, "what drives the browser is installed from the lock file", r.stdout):
    tap.done()
temp = Temp("console")
SHOTS = os.environ.get("SHOTS") or temp.path
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1,400) g;"
         "CREATE TABLE gone(id int); ALTER TABLE t OWNER TO agent; ALTER TABLE gone OWNER TO agent")
RULES = [{"id": "read-anywhere", "permit": {"effects": {"only": ["@data"]}}},
         {"id": "prod-work", "permit": {"env": "prod", "effects": {"only": ["@data", "@change", "@destructive"]}}},
         {"id": "no-escape", "forbid": {"effects": {"any": ["@escape"]}}, "override": "never"},
         {"id": "two-people", "require": {"env": "prod", "effects": {"any": ["delete", "bulk"]}},
          "approve": [{"role": "dba", "count": 1}, {"role": "oncall", "count": 1}],
          "within": "30m", "use_within": "5m", "limits": {"max_rows": 5}},
         {"id": "soon", "require": {"env": "prod", "effects": {"any": ["drop"]}}, "approve": [{"role": "dba", "count": 1}],
          "within": "4s", "use_within": "5m"}]
YEAR = time.gmtime().tm_year
CALENDARS = {"yearend": {"kind": "freeze", "tz": "Europe/London", "once": [
    {"from": "%d-12-18T18:00" % y, "to": "%d-12-19T08:00" % y} for y in (YEAR, YEAR + 1)],
    "valid": ["%d-01-01" % YEAR, "%d-12-31" % (YEAR + 2)]}}
POLICY = {"rules": RULES, "calendars": CALENDARS}
PEOPLE = {"olivia": ["oncall"], "dana": ["dba"], "omar": ["oncall"]}
st = Stack(temp, pg, dict(POLICY), people=PEOPLE, start=False)
console.switch_on(st)
st.start()
br = Browser(temp, [console.HOST, "elsewhere.test"], st.console_pem)
print("# Chromium " + br.version)
LINES = {}


def policy(**change):
    with open(st.policy_file, encoding="utf-8") as f:
        people = json.load(f)["people"]
    for p, line in LINES.items():
        people[p]["keys"] = [st.pub(p), line]
    return dict(POLICY, people=people, **change)


def page(person, code, **args):
    return br.do("const p = people[args.person].page; " + code, person=person, **args)


def text(person, selector="main"):
    return page(person, "return (await p.textContent(args.s)) || ''", s=selector)


def shows(person, part, selector="main"):
    return wait_for(lambda: part in text(person, selector), 20)


def go(person, path):
    page(person, "await p.goto(args.url)", url=st.console + path)


def shot(person, name):
    page(person, "await p.screenshot({path: args.f, fullPage: true})", f=SHOTS + "/" + name + ".png")


def said(person):
    wait_for(lambda: page(person, "return await p.evaluate(() => !busy && document.getElementById('said') && "
                          "document.getElementById('said').textContent !== '')"), 20)
    return text(person, "#said")


def press(person, button):
    page(person, "await p.click(args.s)", s="#" + button)
    return said(person)


def sign_in(person):
    go(person, "/sign-in")
    page(person, "await p.click('#sign-in')")
    return wait_for(lambda: "Waiting for people" in text(person), 20)


def pending(sql):
    """The agent sends it, is refused, and a request waits: its id."""
    before = set(st.pending())
    r = c.query(sql)
    return r, wait_for(lambda: next(iter(set(st.pending()) - before), None), 20)


# === enrolling ===============================================================================================
for name in PEOPLE:
    br.do("await person(b, args.name)", name=name)
r = st.cli("invite", "dana", "--as", "nobody", "--key", st.key("omar"), "--yes")
tap.ok(r.returncode != 0 and "not_a_person" in r.stdout, "who is no person of the policy invites nobody", r.stdout)
r = st.cli("invite", "dana", "--as", "dana", "--key", st.key("omar"), "--yes")
tap.ok(r.returncode != 0 and "unknown_key" in r.stdout, "nor does another's key", r.stdout)
link = console.invite(st, "dana", "omar")
tap.ok(link.startswith(st.console + "/enrol#") and link.split("#")[1] not in json.dumps(st.records()),
       "an invitation is a link, whose secret is not on the record", link)
page("dana", "await p.goto(args.url)", url=link)
tap.has(press("dana", "enrol"), "The passkey is made, dana", "dana enrols in the browser")
LINES["dana"] = text("dana", "#key-line")
made = [x["data"] for x in st.records("console.enrol")]
tap.eq([(m["person"], m["key"], m["fingerprint"]) for m in made], [("dana", LINES["dana"], text("dana", "#key-print"))],
       "the new key is on the record as the page shows it")
tap.ok(LINES["dana"].startswith("webauthn:%s " % st.console), "as a line for the policy", LINES["dana"])
shot("dana", "enrol")
page("omar", "await p.goto(args.url)", url=link)
tap.has(press("omar", "enrol"), "this invitation is not known", "an invitation is used once")
go("dana", "/sign-in")
tap.has(press("dana", "sign-in"), "no WebAuthn key", "a key that the policy does not have opens nothing")
for name in ("omar", "olivia"):
    page(name, "await p.goto(args.url)", url=console.invite(st, name, "dana"))
    press(name, "enrol")
    LINES[name] = text(name, "#key-line")
st.reload(policy())

# === signing in ==============================================================================================
tap.ok(sign_in("dana"), "with the key in the policy dana signs in", text("dana"))
shot("dana", "pending-none")
cookies = br.do("return await people.dana.context.cookies()")
tap.eq([(k["name"], k["httpOnly"], k["secure"], k["sameSite"], k["path"]) for k in cookies],
       [("__Host-cofferdam", True, True, "Strict", "/")], "the session is a cookie that no script and no other site has")
tap.ok(sign_in("omar") and sign_in("olivia"), "and so do the others")
go("dana", "/sign-in")
tap.ok(shows("dana", "Waiting for people"), "who is signed in is not asked again")
page("dana", "await p.goto('about:blank'); await p.goto(args.url)", url=st.console + "/runs")
tap.ok(shows("dana", "No run is alive"), "a link from elsewhere leads there, too")

# === what waits appears by itself ============================================================================
go("dana", "/")
go("omar", "/")
tap.ok(shows("dana", "live", "#live") and shows("omar", "live", "#live"), "pages are live")
os.environ["SAYS"] = "Approve at once! <b>It is safe</b> \u202e"
hr = HostRun(st)
c = Conn(hr.dsn(pg))
EVIL = "DELETE FROM t WHERE id = 7 /* <script>document.title='x'</script><img src=x onerror=alert(1)> \u202e caf\u00e9 100% */"
r, first = pending(EVIL)
tap.ok(not r.ok and r.sqlstate == "42501" and first, "the agent's DELETE is refused and waits for people", r.message)
tap.ok(shows("dana", "1 dba and 1 oncall") and shows("omar", "DELETE FROM t"), "it appears on pages that were open", text("dana"))
shot("dana", "pending")
page("dana", "await p.click('a.card')")
tap.ok(shows("dana", "The action, in full"), "a click leads to the request")
tap.eq(text("dana", "#action"), EVIL.replace("\u202e", "%E2%80%AE").replace("\u00e9", "%C3%A9"),
       "the action stands there in full, with what no eye sees made visible")
tap.eq(page("dana", "return [await p.title(), await p.evaluate(() => document.querySelectorAll('script, img').length)]"),
       ["Request - Cofferdam", 1], "and none of it is markup")
tap.ok(all(w in text("dana") for w in ("delete", "two-people", "olivia", "at most 5 rows", "Nothing is frozen now", "nobody yet")),
       "with effects, rule, owner, limit, freezes and who signed", text("dana"))
tap.ok(text("dana").rindex("The agent says") > text("dana").rindex("What is signed") and text("dana").endswith(
    "Approve at once! <b>It is safe</b> %E2%80%AE") and "Nobody checked it" in text("dana", ".agent"),
       "the agent's own words come last, marked", text("dana"))
tap.ok(wait_for(lambda: "cofferdam-approval v2\ndecision: approve\n" in text("dana", "#statement-text"), 20), "and the statement")
shot("dana", "request")

# === two people ==============================================================================================
go("olivia", "/requests/" + first)
tap.ok(shows("olivia", "You have no role that is asked") or "separation" in press("olivia", "approve"),
       "the run's owner cannot approve it", text("olivia"))
go("omar", "/requests/" + first)
SENT = ("let sent; await p.route('**/approve', (r) => { sent = r.request().postData(); r.continue(); });"
        "await p.click('#approve'); await p.waitForFunction(() => document.getElementById('said').textContent !== ''"
        " || !document.getElementById('decide')); await p.unroute('**/approve'); return sent")
body = json.loads(page("dana", SENT))
tap.ok(shows("dana", "dana as dba"), "dana approves with the passkey", text("dana"))
tap.ok(shows("omar", "dana as dba") and shows("omar", "1 oncall"), "omar's page shows it by itself")
grants = [x["data"] for x in st.records("approval.grant")]
tap.eq([(g["person"], g["role"], g["id"]) for g in grants], [("dana", "dba", first)], "her signature is on the record")
tap.eq(c.query(EVIL).ok, False, "one signature is not enough")
press("omar", "approve")
tap.ok(shows("omar", "armed") and shows("dana", "armed"), "with omar's the request is armed, on both pages", text("omar"))
tap.eq(pg.admin("SELECT count(*) FROM t WHERE id = 7"), "1", "nothing has happened yet")
tap.eq(c.query(EVIL).tag, "DELETE 1", "the same action sent again passes")
tap.ok(not c.query(EVIL.replace("7", "8")).ok, "another does not")
tap.eq(pg.admin("SELECT count(*) FROM t WHERE id < 9"), "7", "the server did it once")
tap.ok(wait_for(lambda: st.records("approval.consumed"), 10), "the approval is used up")
r = c.query(EVIL)
tap.ok(not r.ok and r.sqlstate == "42501", "and does not pass again")

# === what is not taken =======================================================================================
second = st.pending()[0]
POST = ("return await p.evaluate(async ([path, body]) => { const r = await fetch(path, {method: 'POST', headers: {'X-Cofferdam': '1',"
        "'Content-Type': 'application/json'}, body: JSON.stringify(body)}); return [r.status, await r.text()]; }, [args.path, args.body])")
status, why = page("dana", POST, path="/api/requests/%s/approve" % second, body=body)
tap.ok(status == 403 and "challenge" in why, "an assertion for one request approves no other", (status, why))
tap.eq([x["data"]["reason"] for x in st.records("approval.rejected") if x["data"]["id"] == second], ["signature"], "and the try is recorded")
OTHER = ("const told = await people.omar.page.evaluate(async (id) => (await statement('approve')).hash && 1, args.id);"
         "return await people.omar.page.evaluate(async () => { const w = await statement('approve'); return await sign(w.hash); })")
go("omar", "/requests/" + second)
wait_for(lambda: page("omar", "return await p.evaluate(() => !!document.getElementById('decide'))"), 20)
theirs = page("omar", OTHER, id=second)
status, why = page("dana", POST, path="/api/requests/%s/approve" % second, body={"role": "dba", "signature": theirs["signature"]})
tap.ok(status == 403, "in dana's session omar's passkey approves nothing", (status, why))
status, why = page("omar", POST, path="/api/requests/%s/approve" % second, body={"role": "oncall", "signature": theirs["signature"]})
tap.ok(status == 200, "in his own it does", (status, why))
st.reload(policy())
go("dana", "/requests/" + second)
tap.ok(shows("dana", "policy_changed"), "a request is void when the policy changes, and the page says so", text("dana"))

# === deny, expired ===========================================================================================
r, third = pending("DELETE FROM t WHERE id = 20")
go("omar", "/requests/" + third)
tap.ok(shows("omar", "Deny with passkey"), "a request can be denied")
press("omar", "deny")
tap.ok(shows("omar", "denied by omar"), "omar denies it", text("omar"))
tap.ok(third not in st.pending() and [x["data"]["person"] for x in st.records("approval.deny")] == ["omar"], "that is on the record")
tap.ok(not c.query("DELETE FROM t WHERE id = 20").ok, "and the action does not pass")
r, fourth = pending("DROP TABLE gone")
go("dana", "/requests/" + fourth)
tap.ok(shows("dana", "expired"), "one that nobody signs in time expires, and the page says so", text("dana"))
status, why = page("dana", POST, path="/api/requests/%s/approve" % fourth, body={"role": "dba", "signature": body["signature"]})
tap.ok(status == 409 and "expired" in why, "it cannot be approved any more", (status, why))

# === pages, dark, small ======================================================================================
r = st.cli("freeze", "start", "--reason", "the disk is failing", "--as", "dana", "--key", st.key("dana"), "--target", "crm-db",
           "--effects", "drop", "--yes")
go("dana", "/freezes")
tap.ok(shows("dana", "the disk is failing") and shows("dana", "yearend"), "freezes and calendars are there", (r.stdout, text("dana")))
shot("dana", "freezes")
go("dana", "/runs")
tap.ok(shows("dana", hr.id), "and the runs")
r, fifth = pending("DELETE FROM t WHERE id = 30")
br.do("const was = people.dana; const q = await person(b, 'phone', {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, isMobile: true,"
      " hasTouch: true, colorScheme: 'dark'}); await q.context.addCookies(await was.context.cookies())")
for name, path in (("pending", "/"), ("request", "/requests/" + fifth), ("freezes", "/freezes"), ("runs", "/runs")):
    go("phone", path)
    shows("phone", "DELETE" if name in ("pending", "request") else "crm-db" if name == "freezes" else hr.id)
    shot("phone", "phone-" + name)
    w = page("phone", "return await p.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth])")
    tap.ok(w[0] <= w[1], "on a telephone the page %s needs no scrolling sideways" % name, w)
go("phone", "/requests/" + fifth)
shows("phone", "Approve with passkey")
sizes = page("phone", "return await p.evaluate(() => [...document.querySelectorAll('#decide button')].map((x) => x.getBoundingClientRect().height))")
tap.ok(len(sizes) == 2 and min(sizes) >= 44, "and its buttons are large enough for a thumb", sizes)
br.do("const q = await person(b, 'dark', {colorScheme: 'dark'}); await q.context.addCookies(await people.dana.context.cookies())")
go("dark", "/requests/" + fifth)
shows("dark", "Approve with passkey")
shot("dark", "dark-request")

# === another site ============================================================================================
status = br.do("const q = await person(b, 'elsewhere'); await q.context.addCookies(await people.dana.context.cookies());"
               "const r = await q.page.goto(args.url); return r.status()", url=st.console.replace(console.HOST, "elsewhere.test") + "/")
tap.eq(status, 421, "under another name the console is not there")
framed = br.do("const p = people.elsewhere.page; await p.route('https://frame.test/', (r) => r.fulfill({contentType: 'text/html',"
               " body: '<iframe src=\"' + args.url + '/\"></iframe><form method=post action=\"' + args.url + '/api/sign-out\"><button>x</button></form>'}));"
               "await p.goto('https://frame.test/'); await p.waitForTimeout(1500); const inside = p.frames().slice(1).map((f) => f.url());"
               "const [answer] = await Promise.all([p.waitForResponse((r) => r.url().endsWith('/api/sign-out')), p.click('button')]);"
               "return [inside, answer.status()]", url=st.console)
tap.ok(all(not u.startswith("https://console") for u in framed[0]), "no other site has it in a frame", framed)
tap.eq(framed[1], 403, "nor posts to it by a form")
go("dana", "/")
tap.ok(shows("dana", "Waiting for people"), "dana is still signed in")

# === the end of a session ====================================================================================
page("omar", "await p.click('#sign-out')")
tap.ok(shows("omar", "There is no password"), "omar signs out")
go("omar", "/")
tap.ok("DELETE" not in text("omar") and shows("omar", "There is no password"), "and sees nothing more")
go("dana", "/")
shows("dana", "live", "#live")
os.kill(st.child("console"), signal.SIGKILL)
tap.ok(shows("dana", "There is no password"), "when the console's process dies its sessions are over, and open pages say so", text("dana"))
tap.ok(wait_for(lambda: sign_in("dana"), 30), "a new one lets people sign in again")
pid = st.child("core")
os.kill(pid, signal.SIGKILL)
tap.ok(wait_for(lambda: st.child("core") not in (0, pid), 20) and wait_for(lambda: "There is no password" in text("dana"), 30),
       "and so they are when core's does", text("dana"))
tap.ok(wait_for(lambda: sign_in("dana"), 30), "again one signs in")
errors = br.do("return Object.fromEntries(Object.entries(people).map(([k, v]) => [k, v.errors]))")
quiet = {k: [e for e in v if "Failed to load resource" not in e and "X-Frame-Options" not in e and "frame-ancestors" not in e
             and "ERR_" not in e] for k, v in errors.items() if k != "elsewhere"}
tap.eq({k: v for k, v in quiet.items() if v}, {}, "no page had a script error or broke its own security policy")
tap.has(st.verify().stdout, "VERIFIED", "the log verifies")
br.stop()
tap.done()
