#!/usr/bin/python3
"""The requests that our model clients make, held to the types that the providers publish.

The JSON goes into a TypeScript file, typed as the official SDKs type it, and tsc must take it: a
key that no API has, a missing one or a wrong type fails. Needs the npm registry (tests/npm has
the lock file); without it this test fails rather than be passed over.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, Tap, run
from npm import NPM, install

tap = Tap()
TYPES = {"anthropic": "Anthropic.MessageCreateParamsStreaming",
         "openai-responses": "OpenAI.Responses.ResponseCreateParamsStreaming",
         "openai": "OpenAI.Chat.ChatCompletionCreateParamsStreaming"}
KINDS = {"anthropic": ("cache_control", "signature", "redacted_thinking", "tool_result", "is_error", "INVALID_JSON"),
         "openai-responses": ("encrypted_content", "function_call_output", "summary_text", "max_output_tokens", "instructions"),
         "openai": ("tool_call_id", "tool_calls", "include_usage", "max_completion_tokens")}
TOOLS = ("run_code", "run_command", "read_file", "write_file", "ask", "wait_approval", "finish")
HEAD = """import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
"""


def typed(name, lines):
    """tsc's judgement of the requests, each a constant of its provider's type."""
    path = os.path.join(NPM, name + ".ts")
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD)
        for i, line in enumerate(lines):
            provider, body = line.split(" ", 1)
            f.write("export const r%d: %s = %s;\n" % (i, TYPES[provider], body))
    return run(["node", "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
                "--module", "nodenext", "--moduleResolution", "nodenext", name + ".ts"], cwd=NPM, timeout=300)


r = install()
if not tap.ok(r.returncode == 0, "the providers' published types are installed from the lock file", r.stdout):
    tap.done()
dump = subprocess.run([BUILD + "/tool_model_dump"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.splitlines()
for provider in TYPES:
    mine = [x for x in dump if x.startswith(provider + " ")]
    tap.eq(len(mine), 20, "%s: two conversations of ten requests each" % provider)
    tap.ok(all(k in "".join(mine) for k in KINDS[provider]),
           "%s: every kind of block and field that we send is among them" % provider)
for provider in TYPES:
    tap.ok(all('"name":"%s"' % t in line for t in TOOLS for line in dump if line.startswith(provider + " ")),
           "%s: every tool is in every request" % provider)
r = typed("requests", dump)
tap.ok(r.returncode == 0, "every request is of the provider's type", r.stdout[:4000])
wrong = subprocess.run([BUILD + "/tool_model_dump", "misspelt"], stdout=subprocess.PIPE, check=True,
                       encoding="utf-8").stdout.splitlines()
for line in wrong:
    r = typed("misspelt", [line])
    tap.ok(r.returncode != 0 and "TS2353" in r.stdout and "temprature" in r.stdout,
           "%s: a misspelt key is found" % line.split(" ")[0], r.stdout[:2000])
r = typed("short", [dump[0].replace('"model":"some-model",', "")])
tap.ok(r.returncode != 0 and "model" in r.stdout, "and so is a missing one", r.stdout[:2000])
tap.done()
