#!/usr/bin/python3
"""Real agents from npm, wrapped: Claude Code, Codex, Gemini CLI and opencode, offline but for the install, with scripted models
behind the broker. Each runs commands, finds no credential anywhere, meets the refusal of a frozen table, waits for two people to
sign for another one, and goes on. A package that cannot be had is skipped, in words."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Tap, Temp
from npm import AGENTS, install
from wrapped import World

tap = Tap()
IN = "/opt/agents/"
# profile: package, provider, command, the name of its tool for a shell and that of the tool's argument
REAL = {
    "claude-code": ("@anthropic-ai/claude-code-linux-x64", "anthropic", [IN + "@anthropic-ai/claude-code-linux-x64/claude", "-p",
                    "do what is to be done", "--dangerously-skip-permissions"], "^Bash$", {"description": "x"}),
    "codex": ("@openai/codex-linux-x64", "openai", [IN + "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", "exec",
              "--skip-git-repo-check", "-c", "model=gpt-5.1", "do what is to be done"], "^exec_command$", {"argument": "cmd", "yield_time_ms": 60000}),
    "gemini-cli": ("@google/gemini-cli", "google", ["node", IN + "@google/gemini-cli/bundle/gemini.js", "-p", "do what is to be done", "--yolo"],
                   "^run_shell_command$", {}),
    "opencode": ("opencode-linux-x64", "anthropic", [IN + "opencode-linux-x64/bin/opencode", "run", "-m", "anthropic/claude-sonnet-4-5",
                 "do what is to be done"], "^bash$", {"description": "x"})}
r = install(AGENTS, "tests/interop/agents")
modules = AGENTS + "/node_modules"
here = [a for a in REAL if os.path.exists(modules + "/" + REAL[a][0])]
for a in sorted(set(REAL) - set(here)):
    tap.ok(True, "%s: # SKIP npm does not have %s for this machine: %s" % (a, REAL[a][0], r.stdout.strip().splitlines()[-1:]))
if not here:
    tap.done()
temp = Temp("agents")
w = World(temp, here)
for agent in here:
    package, provider, argv, tool, more = REAL[agent]
    w.play(provider, w.script(agent, tool, **more))
    run, heard, new = w.through(tap, agent, provider, argv, opts=["--ro-bind", modules + ":/opt/agents", "--memory", "4096", "--max-time", "240"],
                                profile=agent if argv[0] == "node" else None, timeout=300)
    tap.ok("profile %s, by the command's name" % agent in run.stderr or argv[0] == "node", "%s: its profile is found by its name" % agent, run.stderr)
    others = {x["data"]["request"]["http"]["authority"] for x in new if x["type"] == "action" and "http" in x["data"]["request"]
              and x["data"]["request"]["target"] != provider + "-api"}
    print("# %s: %d questions; refused besides: %s" % (agent, len(heard), ", ".join(sorted(others)) or "nothing"))
tap.done()
