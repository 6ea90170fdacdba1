#!/usr/bin/python3
"""Profiles: agents that people already use find the broker where they expect their provider. A script that reads what each
reads and speaks what each speaks stands in for it here; the real ones are `make interop-agents`'s."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, TOP, Tap, Temp, run
from terminal import Terminal
from wrapped import World

tap, temp = Tap(), Temp("profiles")
AGENTS = {  # profile: provider, API, from where the stand-in has its settings
    "plain": ("anthropic", "messages", "env"), "claude-code": ("anthropic", "messages", "env"),
    "codex": ("openai", "responses", "codex"), "gemini-cli": ("google", "google", "env"),
    "aider": ("openai", "chat", "env"), "opencode": ("anthropic", "messages", "opencode")}
w = World(temp, AGENTS)
st = w.st
FOUND = "sk-ant-" + "api03-" + "a1b2" * 8  # as one that somebody left lying about
OWN = temp.path + "/config"
os.environ["XDG_CONFIG_HOME"] = OWN
os.makedirs(OWN + "/cofferdam/profiles")


def own(name, text):
    with open(OWN + "/cofferdam/profiles/" + name + ".json", "w", encoding="utf-8") as f:
        f.write(text if isinstance(text, str) else json.dumps({"name": name, "about": "a test", **text}))


def inside(*argv, opts=()):
    return st.sandbox(*argv, opts=opts)


# --- each profile ----------------------------------------------------------------------------
shipped = sorted(n[:-5] for n in os.listdir(TOP + "/profiles"))
tap.eq(shipped, sorted(AGENTS), "every profile that is shipped is run here")
r = run([CLI, "profile", "list"])
tap.ok(r.returncode == 0 and [line.split()[0] for line in r.stdout.splitlines()] == shipped, "profile list has them all", r.stdout)
for name, (provider, api, how) in AGENTS.items():
    w.play(provider, w.script(name, "^shell$"))
    w.through(tap, name, provider, ["python3", "/opt/tools/plain_agent.py", api, how], profile=name)
    r = run([CLI, "profile", "show", name])
    tap.ok(r.returncode == 0 and "HOME=/tmp/home" in r.stdout, "%s: profile show says what it is told" % name, r.stdout)
    tap.ok(not any(s in r.stdout for s in w.secrets.values()), "%s: which holds no key" % name)

# --- chosen by the command's name --------------------------------------------------------------
own("tool", {"commands": ["env"], "models": ["anthropic"], "env": {"TOOL_URL": "${anthropic.url}", "TOOL_API_KEY": "${anthropic.key}",
                                                              "TOOL_BOTH": "${openai.host} ${google.url}"},
             "files": {".tool/x.conf": ["key = ${anthropic.key}", "end = ${anthropic.key.end}"]}})
r = inside("env")
env = dict(line.split("=", 1) for line in r.stdout.splitlines())
key = env.get("TOOL_API_KEY", "")
tap.ok("profile tool, by the command's name" in r.stderr and env.get("HOME") == "/tmp/home", "one profile for a command is taken, and it says so", r.stderr)
tap.ok(env.get("TOOL_URL") == w.models["anthropic"].origin and key.startswith("cfph_") and
       env.get("TOOL_BOTH") == w.models["openai"].origin[8:] + " " + w.models["google"].origin, "its variables say where the model is", r.stdout)
tap.ok("WGETRC" not in env and "TOOL_API_KEY" not in inside("env", opts=["--no-profile"]).stdout, "--no-profile leaves it out")
r = inside("sh", "-c", "cat ~/.tool/x.conf; touch ~/made && ls -a ~; stat -c %a ~/.tool/x.conf", opts=["--profile", "tool"])
lines = r.stdout.splitlines()
tap.ok(len(lines) > 4 and lines[0].startswith("key = cfph_") and lines[1] == "end = " + lines[0][-20:] and "made" in lines and
       lines[-1] == "600", "its files are in a home that can be written", r.stdout + r.stderr)
own("tool2", {"commands": ["env"]})
r = inside("env")
tap.ok(r.returncode == 0 and "TOOL_URL" not in r.stdout and "profiles tool and tool2 are both for env" in r.stderr, "of two none is taken, and it says so", r.stderr)
os.unlink(OWN + "/cofferdam/profiles/tool2.json")
own("plain", {"env": {"MINE": "1"}})
r = inside("env", opts=["--profile", "plain"])
tap.ok("MINE=1" in r.stdout and "plain            a test (yours)" in run([CLI, "profile", "list"]).stdout, "a person's own profile goes before the shipped one", r.stdout)
os.unlink(OWN + "/cofferdam/profiles/plain.json")

# --- what the policy must let ------------------------------------------------------------------
TALK = "curl -sS -m 20 -o /dev/null -w '%%{http_code}' %s/v1/messages -H \"x-api-key: $TOOL_API_KEY\" -d '{\"messages\":[{\"role\":\"user\"}]}' %s"
url = w.models["anthropic"].origin
w.play("anthropic", {"steps": [{"text": "x"}]})
r = inside("sh", "-c", TALK % (url, ""), opts=["--profile", "tool"])
tap.eq(r.stdout, "200", "from inside a profile the model is reached")
r = inside("sh", "-c", TALK % (url, "-x $HTTPS_PROXY --noproxy ''"), opts=["--profile", "tool"])
tap.eq(r.stdout, "200", "also by the proxy")
heard = len(w.models["anthropic"].heard())
r = inside("sh", "-c", "curl -sS -m 20 -o /dev/null -w '%%{http_code}' %s/v1/messages -H 'x-api-key: %s' -d '{\"messages\":[{\"role\":\"user\"}]}'"
           % (url, FOUND), opts=["--profile", "tool"])
tap.ok(r.stdout == "403" and len(w.models["anthropic"].heard()) == heard, "a key that was found somewhere is not let through", r.stdout + r.stderr)
r = inside("sh", "-c", TALK % (url, ""), opts=["--no-profile"])
tap.ok(r.stdout != "200" and len(w.models["anthropic"].heard()) == heard, "without a profile no model is there", r.stdout + r.stderr)
r = inside("sh", "-c", TALK % (url, ""), opts=["--target", "anthropic-api"])
heard += 1
tap.ok(r.stdout == "200" and len(w.models["anthropic"].heard()) == heard, "unless it is asked for by name", r.stdout + r.stderr)
w.http["anthropic-api"].more["wrapped"] = None
st.reload({"rules": [{"id": "read", "permit": {"effects": {"only": ["@data"]}}}]})
r = inside("env", opts=["--profile", "claude-code"])
tap.ok(r.returncode == 1 and "\"model\": anthropic and \"wrapped\": true" in r.stderr and "--no-profile" in r.stderr,
       "where the policy does not let it, the run does not begin, and says what is missing", r.stderr)
r = inside("env", opts=["--target", "anthropic-api", "--no-profile"])
tap.ok(r.returncode == 1 and "is a model" in r.stderr, "nor by naming the target", r.stderr)
r = inside("sh", "-c", TALK % (url, "-x $HTTPS_PROXY --noproxy ''"), opts=["--profile", "plain"])
tap.ok("200" not in r.stdout and len(w.models["anthropic"].heard()) == heard, "nor beside another model, by the proxy", r.stdout + r.stderr)
tap.ok("ANTHROPIC" not in inside("env", opts=["--profile", "plain"]).stdout, "what is said of a model that is not there is left out")

# --- what a profile cannot do --------------------------------------------------------------------
for why, text, words in (
        ("an unknown key", {"targets": ["crm-db"]}, "\"targets\" is no key of a profile"),
        ("a key", {"env": {"X": FOUND}}, "looks like a key"),
        ("a key that is no known one", {"files": {"a": ["x", "t = 0f8fad5b-d9cb-469f-a165-70867728950e"]}}, "looks like a key"),
        ("a long word", {"env": {"X": "q83hf7dk20sm5n1bv7c4x9z2l6k3j8h5g0"}}, "looks like a key"),
        ("a variable for a key with a value", {"env": {"GITHUB_TOKEN": "abc"}}, "says by its name that it is a key"),
        ("what programs trust", {"env": {"SSL_CERT_FILE": "/work/ca.pem"}}, "variable SSL_CERT_FILE is the sandbox's"),
        ("how programs start", {"env": {"LD_PRELOAD": "/work/x.so"}}, "variable LD_PRELOAD is the sandbox's"),
        ("where they connect", {"env": {"HTTPS_PROXY": "http://127.0.0.1:1"}}, "variable HTTPS_PROXY is the sandbox's"),
        ("where the database is", {"env": {"PGHOST": "x"}}, "variable PGHOST is the sandbox's"),
        ("the home", {"env": {"HOME": "/work"}}, "variable HOME is the sandbox's"),
        ("a path out of the home", {"files": {"../x": ["a"]}}, "a file stands below the home"),
        ("an absolute path", {"files": {"/etc/x": ["a"]}}, "a file stands below the home"),
        ("a template that is none", {"env": {"X": "${HOME}"}}, "begins none of"),
        ("a provider that is none", {"models": ["acme"]}, "a model is anthropic, openai or google"),
        ("another name", {"name": "other"}, "its name must be the file's"),
        ("no JSON", "{\n \"name\": \"bad\",\n \"name\": \"bad\"}", "duplicate key")):
    own("bad", text)
    r = run([CLI, "profile", "show", "bad"])
    at = "bad.json:" if why != "no JSON" else "bad.json:3:"
    tap.ok(r.returncode == 1 and words in r.stdout and at in r.stdout, "refused with its place: " + why, r.stdout)
r = inside("true", opts=["--profile", "bad"])
tap.ok(r.returncode == 2 and "bad.json:3:" in r.stderr, "a run with it does not begin", r.stderr)
r = inside("true")
tap.ok(r.returncode == 0 and "bad.json:3:" in r.stderr, "one without it does, and it is told of", r.stderr)
os.unlink(OWN + "/cofferdam/profiles/bad.json")
own("fine", {"env": {"X": "claude-sonnet-4-5-20250929", "MAX_TOKENS": "4096", "GITHUB_TOKEN": "", "OPENAI_API_KEY": "${openai.key}"}})
tap.eq(run([CLI, "profile", "show", "fine"]).returncode, 0, "what only resembles a key passes")
r = inside("true", opts=["--profile", "nobody"])
tap.ok(r.returncode == 2 and "no profile \"nobody\"" in r.stderr and OWN in r.stderr, "one that is not there is an error that says where was looked", r.stderr)
r = run([CLI, "run", "--state", st.state, "--profile", "plain", "--task", "x", "--script", "/dev/null"])
tap.ok(r.returncode == 2 and "for a command" in r.stdout, "the built-in loop takes none", r.stdout)

# --- a terminal ------------------------------------------------------------------------------------
TUI = ("import curses, os, signal\n"
       "def main(s):\n"
       " while True:\n"
       "  s.erase(); s.addstr(0, 0, 'SIZE %dx%d' % s.getmaxyx()); s.addstr(1, 0, 'TERM ' + os.environ['TERM']); s.refresh()\n"
       "  try: k = s.getch()\n"
       "  except KeyboardInterrupt: raise SystemExit(42)\n"
       "  if k == ord('q'): raise SystemExit(7)\n"
       "curses.wrapper(main)\n")
base = [CLI, "run", "--state", st.state, *([] if os.geteuid() == 0 else ["--limits-optional"]), "--profile", "fine", "--"]


def tui(*argv):
    return Terminal([*base, *argv], kind="xterm", rows=33, cols=101)


t = tui("python3", "-c", TUI)
tap.ok(t.sees("SIZE 33x101") and t.sees("TERM xterm"), "a full-screen program has the terminal's size and kind", t.text)
t.size(50, 120)
tap.ok(t.sees("50x120") or t.sees("SIZE 50"), "follows when it is resized", t.text)
t.type("q")
tap.eq(t.end(), (7, True), "ends with its own status, and the terminal is as it was")
t = tui("python3", "-c", TUI)
t.sees("SIZE 33x101")
t.type("\x03")
tap.eq(t.end(), (42, True), "Ctrl-C goes to the program inside")
t = tui("bash", "--norc", "-i")
t.type("echo go-$((1+1)); sleep 600\n")
t.sees("go-2")
t.type("\x03")
t.type("echo still-$((1+1))\n")
tap.ok(t.sees("still-2"), "and of a shell to what it runs", t.text)
t.type("exit 9\n")
tap.eq(t.end(), (9, True), "whose status is the command's")
r = subprocess.run(["sh", "-c", "echo in | \"$@\"", "sh", *base, "sh", "-c", "cat; echo err >&2; kill -TERM $$"], capture_output=True, encoding="utf-8",
                   timeout=60, check=False)
tap.ok((r.stdout, r.returncode) == ("in\n", 143) and "err" in r.stderr, "without a terminal the streams stay apart, and a signal is 128 and its number",
       repr((r.stdout, r.stderr, r.returncode)))
tap.eq(st.verify().returncode, 0, "the log verifies")
tap.done()
