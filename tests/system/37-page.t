#!/usr/bin/python3
"""The page of a run in a real browser: every byte that can be recorded, no request, no error, proofs recomputed, keys, a phone."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from browser import Browser
from harness import Tap, Temp, wait_for
from npm import install
from story import Story, action_id, bundle, replay

tap = Tap()
r = install()
if not tap.ok(r.returncode == 0, "what drives the browser is installed from the lock file", r.stdout):
    tap.done()
temp = Temp("page")
SHOTS = os.environ.get("SHOTS") or temp.path
EVIL = ["</script><script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">", "--><!--<svg/onload=1>",
        "</code></pre></li></ol><h1>taken</h1>", "\x1b[2J\x1b]0;taken\x07", "a\u202egnp.exe\u2066\u2069", "\u05d0\u05d1\u05d2 123 \u0661\u0662",
        "&lt;b&gt; &#x41; &amp;", "{{constructor.constructor('document.title=1')()}}", "\r\rx\u2028y\u2029z\x85", "\x01\x02\x7f\ufeff\u200b\ufffe"]
BYTES = bytes(b for b in range(256) if b != 10)
text, digest = bundle(temp.path, freeze=(-60, 7200))
s = Story()
s.policy(text, digest)
s.start("\n".join(EVIL), agent="<b>agent</b>\u202e", owner="bob'\"><script>")
for i, evil in enumerate(EVIL):
    s.turn(evil, "echo " + evil, i + 1)
    a = s.act("SELECT '%s'" % evil)
    s.outcome(a, tag=evil)
    s.act("DROP TABLE \"%s\"" % evil, "deny", ["frozen"], ["drop"], reason=evil, calendar="quiet", operation=evil)
    s.result(evil, i + 1, cause=evil, **{"extra": evil})
s.exec("printf")
every = s.result(BYTES.decode("latin-1").encode("latin-1").replace(b"\\", b"\\\\") + b"\xff\xc3\x28\xed\xa0\x80", 99)
late = s.act("SELECT 'late'")
s.outcome(late, "unknown")
s.add("agent.note", "agent", {"content": "@", "n": "x" * 3000}, "see " + action_id(12345))
for evil in EVIL + ["<meta http-equiv=refresh content=0;url=/taken>"]:
    s.add("agent.note", "agent", {"content": {"len": evil}})  # a reference that is none
while s.seq < 1000:
    s.exec("psql", 100)
    s.outcome(s.act("SELECT %d" % s.seq))
    s.result("1", 100)
s.end("done", "</title><script>")
d = s.build(temp.path + "/s", cp=100)
PAGE = temp.path + "/page.html"
rc, out, err = replay("timeline", d, "--html", PAGE, "r-1")
tap.ok(rc == 0 and out == "" and os.stat(PAGE).st_mode & 0o777 == 0o600, "the page is written, for its maker alone", (rc, out, err))
os.symlink("/dev/full", temp.path + "/full")
rc, out, err = replay("timeline", d, "--html", temp.path + "/full", "r-1")
tap.ok(rc == 2 and "No space left" in err and os.path.islink(temp.path + "/full"), "a device is written to, and not replaced by a page",
       (rc, out, err))
rc, out, err = replay("report", d, "--out", "/dev/stdout", "r-1")
tap.ok(rc == 0 and out.startswith("# Report"), "a pipe gets the document", (rc, out[:100], err))
with open(PAGE, "rb") as f:
    raw = f.read()
tap.eq([b for b in range(256) if bytes((b,)) in raw and (b < 32 or b == 127) and b not in (9, 10)], [], "it holds no control character")
try:
    raw.decode("utf-8")
    tap.ok(True, "it is UTF-8")
except UnicodeDecodeError as e:
    tap.ok(False, "it is UTF-8", e)
tap.ok(not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029\u0080-\u009f]", raw.decode("utf-8", "replace")), "nor a bidirectional one")
tap.eq((raw.count(b"<script"), raw.count(b"<style"), raw.count(b"<h1"), len(re.findall(rb" on[a-z]+=[\"']?[a-z]", re.sub(rb"<script>.*?</script>", b"", raw, flags=re.S).replace(b"onerror=&quot;", b"").replace(b"onload=1", b"")))),
       (1, 1, 1, 0), "one script, one style, one heading, no handler")
tap.ok(b"refresh" in raw and not re.search(rb"<meta[^>]*refresh", raw), "and no order to go elsewhere")
tap.ok(not re.search(rb"(src|href)=\"(?!#|data:,)", raw), "no address but of its own parts")

br = Browser(temp)
print("# Chromium " + br.version)


def page(name, code, **args):
    return br.do("const p = people[args.person].page; " + code, person=name, **args)


def shot(name):
    page(name, "await p.screenshot({path: args.f})", f="%s/page-%s.png" % (SHOTS, name))


LOOKS = {"wide": {"viewport": {"width": 1280, "height": 900}}, "dark": {"viewport": {"width": 1280, "height": 900}, "colorScheme": "dark"},
         "phone": {"viewport": {"width": 390, "height": 844}, "isMobile": True, "hasTouch": True},
         "plain": {"viewport": {"width": 1280, "height": 900}, "javaScriptEnabled": False}}
for name, look in LOOKS.items():
    br.do("const q = await person(b, args.name, args.look); q.asked = []; q.page.on('request', (r) => q.asked.push(r.url()))",
          name=name, look=look)
    page(name, "await p.goto('file://' + args.f)", f=PAGE)
    shot(name)
    tap.eq(br.do("return people[args.name].errors", name=name), [], "%s: no error is said" % name)
    tap.eq(br.do("return people[args.name].asked.filter((u) => u !== 'file://' + args.f && u !== 'data:,')", name=name, f=PAGE), [],
           "%s: and nothing is asked for" % name)
tap.eq(page("wide", "return await p.title()"), "Run r-1", "no content has run")
tap.eq(page("wide", "return await p.locator('.item').count()"), s.seq - 1, "each record is there")
tap.eq([page(n, "return await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth)") for n in ("wide", "phone")],
       [True, True], "nothing stands wider than the screen, nor than a phone's")
tap.eq(page("wide", "return await p.evaluate(() => getComputedStyle(document.body).backgroundColor)") ==
       page("dark", "return await p.evaluate(() => getComputedStyle(document.body).backgroundColor)"), False, "dark is dark")
tap.ok(page("plain", "return await p.locator('.item').count()") == s.seq - 1, "without scripts all of it is there as well")
page("plain", "await p.locator('.hide-model input').click()")
tap.eq(page("plain", "return [await p.locator('.item.lane-model').first().isVisible(), await p.locator('.item.lane-actions').first().isVisible()]"),
       [False, True], "and its lanes can be shown and hidden")

# --- what was recorded, byte for byte -----------------------------------------------------------------
said = page("wide", "await p.click('#check'); await p.waitForFunction(() => document.getElementById('checked').textContent !== '', null, "
            "{timeout: 60000}); return [await p.textContent('#checked'), await p.getAttribute('#checked', 'class')]")
tap.ok(said[1] == "good" and said[0].startswith("%d records lead to the root of size" % (s.seq - 1)),
       "every record's bytes, taken from the page, lead to the signed root", said)
page("wide", "await p.evaluate(() => { const c = document.querySelector('#s7 .rec'); c.textContent = c.textContent.replace('\"v\":1', '\"v\":2'); "
     "document.getElementById('checked').textContent = ''; })")
said = page("wide", "await p.click('#check'); await p.waitForFunction(() => document.getElementById('checked').textContent !== '', null, "
            "{timeout: 60000}); return [await p.textContent('#checked'), await p.getAttribute('#checked', 'class')]")
tap.ok(said[1] == "bad" and "1 DO NOT" in said[0], "one byte changed, and that is said", said)
got = page("wide", "return await p.evaluate((i) => Array.from(bytes(document.querySelector('#s' + i + ' .said code'))), args.i)", i=every)
want = BYTES.replace(b"\\", b"\\\\") + b"\xff\xc3\x28\xed\xa0\x80"
tap.eq(bytes(got), want, "content of every byte there is can be read back from the page exactly")
for i, evil in enumerate(EVIL):
    shown = page("wide", "return await p.evaluate((e) => Array.from(document.querySelectorAll('.lane-code .said code')).some((c) => "
                 "new TextDecoder('utf-8', {ignoreBOM: true}).decode(bytes(c)) === e), args.e)", e="echo " + evil)
    tap.ok(shown, "it is shown as what it is: %r" % evil)

# --- what a reviewer looks for --------------------------------------------------------------------------
top = page("wide", "return await p.textContent('main')")
for part in ("contradictions between claim and record", "untold action", "unseen action", "freeze quiet", "the outcome is in doubt"):
    tap.ok(part in top, "it says: " + part)
tap.ok(page("wide", "return await p.locator('svg rect.freeze').count()") == 1 and page("wide", "return await p.locator('.item.frozen').count()") > 900,
       "the freeze is a band on the axis and beside the records")
tap.ok(page("wide", "return await p.locator('#s%d .doubt').count()" % late[1]) == 1, "a contradiction stands at its record")

# --- keys -------------------------------------------------------------------------------------------------
page("dark", "await p.keyboard.press('j'); await p.keyboard.press('j'); await p.keyboard.press('k')")
tap.eq(page("dark", "return await p.evaluate(() => document.activeElement.id)"), "s1", "j and k go from record to record")
page("dark", "await p.keyboard.press('x')")
first = page("dark", "return await p.evaluate(() => document.activeElement.matches('.deny, .lost') || !!document.activeElement.querySelector('.doubt, .gap'))")
tap.ok(first, "x goes to what is to be looked at")
page("dark", "await p.keyboard.press('o')")
tap.ok(page("dark", "return await p.evaluate(() => document.activeElement.querySelector('details').open)"), "o opens it")
page("dark", "await p.keyboard.press('Tab')")
tap.ok(wait_for(lambda: page("dark", "return await p.evaluate(() => document.activeElement.closest('.item') !== null)"), 5),
       "and Tab goes on from there")
page("phone", "await p.locator('#s7 summary').tap()")
tap.ok(page("phone", "return await p.locator('#s7 .rec').isVisible()"), "a finger opens a record")
tap.eq(br.do("return Object.values(people).flatMap((q) => q.errors)"), [], "no error was said to the end")

# --- a log that does not hold ------------------------------------------------------------------------------
seg = d + "/log/seg/" + [x for x in os.listdir(d + "/log/seg") if x.endswith(".jsonl")][0]
os.chmod(seg, 0o600)
with open(seg, "r+b") as f:
    data = f.read().replace(b'"verdict":"deny"', b'"verdict":"xeny"', 1)
    f.seek(0)
    f.write(data)
rc, out, err = replay("timeline", d, "--html", PAGE, "r-1")
page("wide", "await p.goto('file://' + args.f)", f=PAGE) if rc == 1 and not err else None
tap.ok(rc == 1 and (("TAMPER" in page("wide", "return await p.textContent('.verdict.bad')")) if not err else "TAMPER" in err or "shorter" in err),
       "a page over a log that does not hold says so first, and the command ends with 1", (rc, out, err))
br.stop()
tap.done()
