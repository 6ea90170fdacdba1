#!/usr/bin/python3
"""An agent as people write one: asks a model over HTTP, runs the shell commands it answers with, hands their output back, until
it answers with words alone. usage: plain_agent.py messages|chat|responses|google SETTINGS, where SETTINGS says from where the
base URL and the key come, as the agent named there reads them: env, codex or opencode. No package is needed."""
import json
import os
import subprocess
import sys
import tomllib
import urllib.request

HOME = os.environ["HOME"]
TASK = "do what is to be done"


def settings(api, how):
    """Base URL and key."""
    if how == "codex":
        with open(HOME + "/.codex/config.toml", "rb") as f:
            c = tomllib.load(f)
        p = c["model_providers"][c["model_provider"]]
        return p["base_url"], os.environ[p["env_key"]]
    if how == "opencode":
        with open(HOME + "/.config/opencode/config.json", encoding="utf-8") as f:
            return json.load(f)["provider"]["anthropic"]["options"]["baseURL"], os.environ["ANTHROPIC_API_KEY"]
    if api == "messages":
        return os.environ["ANTHROPIC_BASE_URL"] + "/v1", os.environ["ANTHROPIC_API_KEY"]
    if api == "google":
        return os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta", os.environ["GEMINI_API_KEY"]
    return os.environ.get("OPENAI_BASE_URL") or os.environ["OPENAI_API_BASE"], os.environ["OPENAI_API_KEY"]


def post(url, headers, body):
    r = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(r, timeout=60) as answer:
        return json.load(answer)


def shell(command):
    r = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       encoding="utf-8", errors="replace", timeout=120, check=False)
    print("$ %s\n%s" % (command, r.stdout), flush=True)
    return r.stdout


SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SHELL = {"name": "shell", "description": "run a command"}


def messages(base, key, said):
    r = post(base + "/messages", {"x-api-key": key, "anthropic-version": "2023-06-01"},
             {"model": "m", "max_tokens": 1000, "messages": said, "tools": [{**SHELL, "input_schema": SCHEMA}]})
    said.append({"role": "assistant", "content": r["content"]})
    results = [{"type": "tool_result", "tool_use_id": b["id"], "content": shell(b["input"]["command"])}
               for b in r["content"] if b["type"] == "tool_use"]
    if results:
        said.append({"role": "user", "content": results})
    return None if results else "".join(b.get("text", "") for b in r["content"])


def chat(base, key, said):
    r = post(base + "/chat/completions", {"Authorization": "Bearer " + key},
             {"model": "m", "messages": said, "tools": [{"type": "function", "function": {**SHELL, "parameters": SCHEMA}}]})
    m = r["choices"][0]["message"]
    said.append(m)
    for c in m.get("tool_calls") or []:
        said.append({"role": "tool", "tool_call_id": c["id"], "content": shell(json.loads(c["function"]["arguments"])["command"])})
    return None if m.get("tool_calls") else m["content"]


def responses(base, key, said):
    r = post(base + "/responses", {"Authorization": "Bearer " + key},
             {"model": "m", "input": said, "store": False, "tools": [{"type": "function", **SHELL, "parameters": SCHEMA, "strict": False}]})
    said.extend(r["output"])
    calls = [i for i in r["output"] if i["type"] == "function_call"]
    for c in calls:
        said.append({"type": "function_call_output", "call_id": c["call_id"], "output": shell(json.loads(c["arguments"])["command"])})
    return None if calls else r["output"][0]["content"][0]["text"]


def google(base, key, said):
    contents = [{"role": "user", "parts": [{"text": m["content"]}]} if "content" in m else m for m in said]
    r = post(base + "/models/m:generateContent", {"x-goog-api-key": key},
             {"contents": contents, "tools": [{"functionDeclarations": [{**SHELL, "parameters": SCHEMA}]}]})
    parts = r["candidates"][0]["content"]["parts"]
    said.append({"role": "model", "parts": parts})
    calls = [p["functionCall"] for p in parts if "functionCall" in p]
    if calls:
        said.append({"role": "user", "parts": [{"functionResponse": {"name": c["name"], "response": {"output": shell(c["args"]["command"])}}}
                                               for c in calls]})
    return None if calls else "".join(p.get("text", "") for p in parts)


def main():
    api, how = sys.argv[1:]
    base, key = settings(api, how)
    said = [{"role": "user", "content": TASK}]
    words = None
    while words is None:
        words = {"messages": messages, "chat": chat, "responses": responses, "google": google}[api](base, key, said)
    print("MODEL: " + words)


main()
