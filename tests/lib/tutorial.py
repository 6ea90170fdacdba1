"""A tutorial of docs/, command by command: each block of sh runs in one shell, and what stands under it is looked for."""
import os
import re
import subprocess

from harness import BUILD, TOP

MARK = "--- end of the block, status "


def missing(want, out):
    """The first line of `want` that is not in `out`, each behind the one before; a number is a whole line."""
    at = 0
    for line in want.strip("\n").split("\n"):
        found = re.compile(r"^%s$" % line if line.isdigit() else re.escape(line), re.M).search(out, at)
        if found is None:
            return line
        at = found.end()
    return None


class Tutorial:
    def __init__(self, t, temp, pg, name, least):
        self.t, self.temp = t, temp
        with open(os.path.join(TOP, "docs", name), encoding="utf-8") as f:
            self.blocks = re.findall(r"^```(\w*)\n(.*?)^```$", f.read(), re.M | re.S)
        t.ok(all(kind in ("sh", "output") for kind, _ in self.blocks) and len(self.blocks) > least,
             "every block is commands or what they print", [k for k, _ in self.blocks])
        env = dict(os.environ, PATH=BUILD + ":/usr/lib/postgresql/15/bin:" + os.environ["PATH"], DB_PORT=str(pg.port), DB_CA=pg.ca,
                   DB_PASSWORD=pg.password, HOME=temp.path, LC_ALL="C.UTF-8")
        self.shell = subprocess.Popen(["bash", "-u"], cwd=temp.path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, encoding="utf-8", start_new_session=True)

    def command(self, script):
        """In the one shell, from a file: a command that reads its standard input must not read the next block."""
        with open(self.temp.path + "/block", "w", encoding="utf-8") as b:
            b.write(script)
        self.shell.stdin.write(". " + self.temp.path + "/block </dev/null\necho \"\n%s$?\"\n" % MARK)
        self.shell.stdin.flush()
        out = []
        for line in self.shell.stdout:
            if line.startswith(MARK):
                return "".join(out), line[len(MARK):].strip()
            out.append(line)
        return "".join(out), "the shell is gone"

    def run(self):
        bad = 0
        for i, (kind, body) in enumerate(self.blocks):
            if kind != "sh":
                continue
            out, status = self.command(body)
            title = body.strip().split("\n")[0]
            want = self.blocks[i + 1][1] if i + 1 < len(self.blocks) and self.blocks[i + 1][0] == "output" else None
            ok = self.t.ok(status == "0", "done: " + title, out)
            if want is not None:
                lost = missing(want, out)
                ok = self.t.ok(lost is None, "prints what stands under it: " + title, "no line %r in:\n%s" % (lost, out)) and ok
            bad += not ok
            if bad == 2:
                break
        self.shell.stdin.write("kill $broker 2>/dev/null; wait\n")
        self.shell.stdin.close()
        self.shell.wait(60)
