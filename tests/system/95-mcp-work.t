#!/usr/bin/python3
"""cofferdam mcp on a developer's checkout: its directory becomes /work of each run, paths of the host are shown read-only,
what holds keys is refused; what a client calls its call stands on the record with the code; a line that is too long is
answered, and the session goes on."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mcp
from harness import CLI, Stack, Tap, Temp, run

tap, temp = Tap(), Temp("mcp-work")
os.chmod(temp.path, 0o755)
st = Stack(temp, None, {"targets": {"web": {"kind": "http", "env": "dev", "origin": "https://web.invalid"}}})
HOME = temp.path + "/home"
for d in ("checkout/src", "tools", "home/.ssh", "home/project"):
    os.makedirs(temp.path + "/" + d)
with open(temp.path + "/checkout/src/a.txt", "w", encoding="ascii") as f:
    f.write("before\n")
with open(temp.path + "/tools/list", "w", encoding="ascii") as f:
    f.write("hammer\n")
os.symlink(HOME, temp.path + "/link")
MCP = [CLI, "mcp", "--state", st.state] + ([] if os.getuid() == 0 else ["--limits-optional"])


def stdio(*args, era=mcp.MODERN):
    return mcp.Stdio(MCP + list(args), era=era, stderr=open(temp.path + "/mcp.log", "ab"))


# --- a checkout -------------------------------------------------------------------------
s = stdio("--workspace", temp.path + "/checkout", "--ro-bind", temp.path + "/tools:/opt/tools", "--ro-bind", "/etc/hostname:/srv/name")
r = s.tool("read_file", {"path": "src/a.txt"})
tap.eq(r.data.get("content"), "before\n", "the workspace is /work")
r = s.tool("run_command", {"command": "echo after > src/a.txt; mkdir out; cat /opt/tools/list; echo x > /opt/tools/list; echo x > /srv/name"})
tap.ok(r.data.get("stdout") == "hammer\n" and r.data.get("stderr", "").count("Read-only file system") == 2, "what is bound is seen read-only", r.text)
tap.ok(open(temp.path + "/checkout/src/a.txt", encoding="ascii").read() == "after\n" and os.path.isdir(temp.path + "/checkout/out"), "what code changes there is changed in the checkout")
tap.eq(open(temp.path + "/tools/list", encoding="ascii").read(), "hammer\n", "what is bound is not")
st_out = os.stat(temp.path + "/checkout/out")
tap.eq((st_out.st_uid, st_out.st_gid), (os.getuid(), os.getgid()), "what it makes is the user's")
s.tool("end")
tap.eq(s.tool("run_command", {"command": "cat src/a.txt"}).data.get("stdout"), "after\n", "the next run of the session has it, too")
s.end()
s = stdio()
tap.eq(s.tool("list_files").data.get("entries"), [], "without --workspace /work is empty")
s.end()

# --- what is not one ---------------------------------------------------------------------
env = dict(os.environ, HOME=HOME)
for args, words in ((["--workspace", HOME], "would show %s/.ssh" % HOME), (["--workspace", HOME + "/.ssh"], "would show"), (["--workspace", temp.path + "/none"], "No such file"),
                    (["--workspace", temp.path + "/link"], "Not a directory"), (["--workspace", st.state], "state directory"), (["--workspace", temp.path], "state directory"),
                    (["--ro-bind", st.state + "/keys:/opt/k"], "state directory"), (["--ro-bind", temp.path + "/tools:/etc"], "/etc"), (["--ro-bind", temp.path + "/none:/opt/x"], "No such file"),
                    (["--ro-bind", temp.path + "/tools:/opt/a", "--ro-bind", "/usr:/opt/a"], "/opt/a"), (["--workspace", ""], "workspace")):
    r = run(MCP + args, env=env, stdin=None, input="")
    tap.ok(r.returncode == 2 and words in r.stdout, "%s is refused before any client comes" % " ".join(args).replace(temp.path, "DIR"), r.stdout)
s = mcp.Stdio(MCP + ["--workspace", HOME, "--workspace-unsafe"], env=env, stderr=open(temp.path + "/mcp.log", "ab"))
r = s.tool("list_files")
tap.ok(any(e["path"] == "/work/.ssh" for e in r.data.get("entries", [])), "with --workspace-unsafe it is given", r.text)
level = [x["data"] for x in st.records("run.start")][-1]
tap.has(json.dumps(level), HOME + "/.ssh", "and stands in the level on the record")
s.end()
s = mcp.Stdio(MCP + ["--workspace", HOME + "/project"], env=env)
tap.eq(s.tool("run_command", {"command": "pwd"}).data.get("stdout"), "/work\n", "a directory of its own in a home is allowed")
s.end()

# --- whose call it was -------------------------------------------------------------------
s = stdio()


def execs():
    return [r["data"] for r in st.records("agent.exec")]


def ask(i, name, arguments, **meta):
    params = mcp.modern({"name": name, "arguments": arguments}, **meta)
    s.send({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": params})
    return mcp.Tool(s.wait(i))


r = ask("call-7", "run_code", {"code": "print(6 * 7)"}, token="p-1", **{"claudecode/toolUseId": "toolu_01"})
e = execs()[-1]
tap.eq({k: e.get(k) for k in ("client_call", "client_progress", "client_tool_use", "execution", "language")},
       {"client_call": "call-7", "client_progress": "p-1", "client_tool_use": "toolu_01", "execution": r.data["execution_id"], "language": "python"},
       "code is on the record with what its client calls the call")
r = ask(12, "run_command", {"command": "true"}, callId="call_x", **{"x-codex-turn-metadata": {"turn_id": "t1", "n": 1}})
e = execs()[-1]
tap.eq((e.get("client_call"), e.get("client_tool_use"), e.get("execution")), ("12", "call_x", r.data["execution_id"]), "so is a command, of another client")
tap.eq(json.loads(e.get("client_turn", "null")), {"turn_id": "t1", "n": 1}, "with its turn")
r = ask(13, "run_command", {"command": "true"})
tap.eq(sorted(k for k in execs()[-1] if k.startswith("client_")), ["client_call"], "what a client does not say is not there")
ask(14, "run_command", {"command": "true"}, callId="\u00e9" * 1000)
tap.eq(execs()[-1].get("client_tool_use"), "\u00e9" * 256, "a name that is too long is cut, to 512 bytes")
t = st.cli("replay", "timeline", r.data["run"]).stdout
tap.ok("client_call" in t and "call-7" in t and "toolu_01" in t, "the timeline ties the call to the code", t)

# --- a line that is too long ----------------------------------------------------------------
s.raw(b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"x":"' + b"y" * (9 << 20) + b'"}}\n')
m = s.next()
tap.ok(m["id"] is None and m["error"]["code"] == -32600 and "4 MiB" in m["error"]["message"], "a line over 4 MiB is answered with an error", str(m)[:300])
tap.eq(ask(100, "run_code", {"code": "print(1)"}).data.get("stdout"), "1\n", "and the session goes on, in the same run")
s.raw(b"z" * (5 << 20))
tap.eq(s.next()["error"]["code"], -32600, "one without an end, too")
s.raw(b"z" * 1000 + b'\n{"jsonrpc":"2.0","id":101,"method":"tools/list","params":' + json.dumps(mcp.modern()).encode() + b"}\n")
tap.ok("result" in s.wait(101), "behind its end the next message counts")
big = "y" * (3 << 20)
tap.eq(ask(102, "run_code", {"code": "print(len(%r))" % big[:900000]}).data.get("stdout"), "900000\n", "a long one below the limit is served")
s.end()
tap.done()
