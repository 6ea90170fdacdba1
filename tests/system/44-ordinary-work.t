#!/usr/bin/python3
"""Ordinary work gives the same inside a sandbox as outside: each row is one program run in both places, in a
fresh directory, with the same environment; status and output must be equal.

Where the sandbox says no on purpose, that is a row of its own and the reason must be told.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import BUILD, PGBIN, Tap, Temp

ROOT = os.geteuid() == 0
tap, temp = Tap(), Temp("work")
T = temp.path
os.chmod(T, 0o755)
CLI = [BUILD + "/cofferdam", "sandbox", "exec"] + ([] if ROOT else ["--limits-optional"])
USER = 61234

ROWS = []


def row(name, script, needs=(), lang="bash"):
    """script runs in an empty directory; needs: programs, or it is skipped and that is said."""
    ROWS.append((name, script, needs if isinstance(needs, tuple) else (needs,), lang))


def python(name, code, needs=("python3",)):
    row(name, code, needs, "python")


# --- python -----------------------------------------------------------------------------------------
python("python: arithmetic, files, json, sqlite, zlib, hashing", """
import json, sqlite3, zlib, hashlib, tempfile, os
db = sqlite3.connect("a.db"); db.execute("create table t (a, b)")
db.executemany("insert into t values (?, ?)", [(i, i * i) for i in range(1000)]); db.commit()
print(db.execute("select sum(b) from t").fetchone())
with tempfile.NamedTemporaryFile() as f: f.write(b"x" * 100000); f.flush(); print(os.path.getsize(f.name))
print(hashlib.sha256(zlib.compress(json.dumps(list(range(1000))).encode())).hexdigest())
""")
python("python: numpy", """
import numpy as np
a = np.arange(250000, dtype=np.float64).reshape(500, 500)
print((a @ a.T).sum(), np.linalg.det(np.eye(50) * 2), np.fft.fft(np.arange(64)).real.sum().round(6))
np.save("a.npy", a); print(np.load("a.npy", mmap_mode="r")[7, 7])
""", ("python3", "/usr/lib/python3/dist-packages/numpy"))
python("python: threads, subprocesses, pipes", """
import threading, subprocess, concurrent.futures as c
with c.ThreadPoolExecutor(8) as e: print(sum(e.map(lambda i: i * i, range(500))))
print(subprocess.run(["sort", "-r"], input="a\\nc\\nb\\n", text=True, capture_output=True).stdout.split())
p = subprocess.Popen("echo out; echo err >&2; exit 3", shell=True, stdout=-1, stderr=-1); print(p.communicate(), p.returncode)
""")
python("python: multiprocessing with locks, queues and shared memory", """
import multiprocessing as m
from multiprocessing import shared_memory
def work(n, lock, total):
    with lock: total.value += n
if __name__ == "__main__":
    lock, total = m.Lock(), m.Value("i", 0)
    ps = [m.Process(target=work, args=(i, lock, total)) for i in range(8)]
    [p.start() for p in ps]; [p.join() for p in ps]; print(total.value)
    with m.Pool(4) as pool: print(sum(pool.map(abs, range(-100, 0))))
    q = m.Queue(); q.put({"a": 1}); print(q.get())
    s = shared_memory.SharedMemory(create=True, size=100000); s.buf[9] = 7
    o = shared_memory.SharedMemory(s.name); print(o.buf[9]); o.close(); s.close(); s.unlink()
""")
python("python: asyncio, sockets, http between programs inside", """
import asyncio, http.server, threading, urllib.request, socket
async def main():
    async def serve(r, w): w.write((await r.readline()).upper()); await w.drain(); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"hello\\n"); print(await r.read())
    p = await asyncio.create_subprocess_exec("echo", "sub", stdout=-1); print(await p.communicate())
asyncio.run(main())
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"served")
    def log_message(self, *a): pass
h = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H); threading.Thread(target=h.serve_forever, daemon=True).start()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open("http://127.0.0.1:%d/" % h.server_port).read())
a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [0]); print(len(socket.recv_fds(b, 1, 1)[1]))
u = socket.socket(socket.AF_UNIX); u.bind("u.sock"); u.listen(); v = socket.socket(socket.AF_UNIX); v.connect("u.sock"); print("unix")
""")
python("python: mmap, files with holes, locks, inotify by ctypes, signals, timers", """
import mmap, os, fcntl, signal, ctypes, select, struct
with open("m", "w+b") as f:
    f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 0); m[5:8] = b"abc"; m.flush(); print(os.pread(f.fileno(), 3, 5))
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(f, fcntl.LOCK_SH); print(os.stat("m").st_size)
libc = ctypes.CDLL(None); i = libc.inotify_init1(0); libc.inotify_add_watch(i, b".", 0x100)
open("new", "w").close(); print(struct.unpack_from("iIII", os.read(i, 400))[1])
signal.signal(signal.SIGALRM, lambda *a: print("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.05); signal.pause()
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"x"); print(len(e.poll(1)))
print(os.sched_getaffinity(0) != set(), os.getpriority(os.PRIO_PROCESS, 0) >= 0)
os.posix_fallocate(os.open("big", os.O_CREAT | os.O_RDWR), 0, 1 << 20); print(os.path.getsize("big"))
""")
python("python: a terminal of its own", """
import pty, os, sys
def read(fd):
    out = b""
    while True:
        try: d = os.read(fd, 1000)
        except OSError: return out
        if not d: return out
        out += d
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "test -t 0 && test -t 1 && stty size && tty | cut -c1-8"])
print(read(fd)); print(os.waitpid(pid, 0)[1])
""", ("python3", "stty"))
row("python: venv and pip install of a local wheel", """
python3 -m venv --without-pip v 2>&1 && v/bin/python - <<'P'
import zipfile
z = zipfile.ZipFile("thing-1.0-py3-none-any.whl", "w")
z.writestr("thing.py", "def f(): return 42\\n")
z.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n")
z.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
z.writestr("thing-1.0.dist-info/RECORD", "thing.py,,\\nthing-1.0.dist-info/METADATA,,\\nthing-1.0.dist-info/WHEEL,,\\nthing-1.0.dist-info/RECORD,,\\n")
z.close()
P
python3 -m pip --python v/bin/python install -q --no-index --no-deps --disable-pip-version-check ./thing-1.0-py3-none-any.whl 2>&1 &&
v/bin/python -c 'import thing; print(thing.f())'
""", ("python3", "/usr/lib/python3/dist-packages/pip"))

# --- node -------------------------------------------------------------------------------------------
row("node: files, promises, child processes, workers, crypto", """
cat > a.mjs <<'J'
import { Worker, isMainThread, parentPort } from "node:worker_threads";
import { execSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync, readFileSync, watch } from "node:fs";
import http from "node:http";
if (isMainThread) {
  writeFileSync("x", "hello");
  console.log(readFileSync("x", "utf8"), createHash("sha256").update("x").digest("hex"), randomBytes(4).length);
  console.log(execSync("echo child").toString().trim());
  const sums = await Promise.all([1, 2, 3].map((n) => new Promise((ok) => {
    const w = new Worker(new URL(import.meta.url)); w.on("message", ok); w.postMessage(n); })));
  console.log(sums.join());
  const s = http.createServer((q, r) => r.end("served")).listen(0, "127.0.0.1", async () => {
    console.log(await (await fetch(`http://127.0.0.1:${s.address().port}/`)).text()); s.close(); });
} else parentPort.once("message", (n) => parentPort.postMessage(n * n));
J
node a.mjs
""", "node")
row("npm: install and run of a local package", """
mkdir p q && echo '{"name":"p","version":"1.0.0","main":"i.js"}' > p/package.json && echo 'module.exports = () => 42' > p/i.js
cd q && echo '{"name":"q","version":"1.0.0","scripts":{"t":"node -e \\"console.log(require(\\\\\\"p\\\\\\")())\\""}}' > package.json
npm install --offline --no-audit --no-fund --silent ../p 2>&1 && npm run -s t
""", ("node", "npm"))

# --- version control and building -------------------------------------------------------------------
row("git: init, commit, branch, merge, clone, log, gc", """
git config --global user.email a@b.c; git config --global user.name n; git config --global init.defaultBranch main
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git init -q r && cd r && for i in $(seq 20); do echo $i > f$i; done && git add . && git commit -qm one && git checkout -qb b &&
echo x >> f1 && git commit -qam two && git checkout -q main && git merge -q --no-edit b && git gc -q && cd .. &&
git clone -q r s && git clone -q --no-local r u && cd s && git log --format='%H %s' && git status --short && git fsck 2>&1 && git archive HEAD | sha256sum
""", "git")
row("gcc and make -j: a small project", """
for i in $(seq 6); do echo "int f$i(int x); int f$i(int x) { return x * $i; }" > f$i.c; done
cat > main.c <<'C'
#include <stdio.h>
#include <pthread.h>
#include <math.h>
int f1(int), f2(int), f3(int), f4(int), f5(int), f6(int);
static void *run(void *p) { *(int *)p = f6(7); return p; }
int main(void) { pthread_t t; int r; pthread_create(&t, 0, run, &r); pthread_join(t, 0);
printf("%d %.3f\\n", f1(1) + f2(2) + f3(3) + f4(4) + f5(5) + r, sqrt(2)); return 0; }
C
printf 'O = main.o f1.o f2.o f3.o f4.o f5.o f6.o\\nall: p\\np: $(O)\\n\\tgcc -o $@ $(O) -lm -pthread\\n%%.o: %%.c\\n\\tgcc -O2 -g -c -o $@ $<\\n' > Makefile
make -s -j4 && ./p && make -s -j4 && ar rc l.a f1.o && nm l.a | grep -c ' T ' && gcc -static -O1 -o q main.c f?.c -lm -pthread && ./q
""", ("gcc", "make"))
row("clang", "echo 'int main(void){return 42;}' > a.c && clang -fsanitize=undefined -o a a.c; ./a; echo $?", "clang")
row("java: compile and run", """
echo 'public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println(6 * 7)); t.start(); t.join(); } }' > A.java
javac A.java && java -Xmx128m A
""", ("java", "javac"))
row("go: build and run", "printf 'package main\\nimport \"fmt\"\\nfunc main(){c:=make(chan int);go func(){c<-42}();fmt.Println(<-c)}' > a.go && GO111MODULE=off GOCACHE=$PWD/c go run a.go", "go")
row("rust: build and run", "echo 'fn main(){let t=std::thread::spawn(||42);println!(\"{}\",t.join().unwrap());}' > a.rs && rustc -o a a.rs && ./a", "/usr/bin/rustc")

# --- data and files ---------------------------------------------------------------------------------
row("sqlite3: a database with a journal of each kind", """
for m in delete wal memory; do sqlite3 $m.db "pragma journal_mode=$m; create table t(a); insert into t values (1),(2); select sum(a) from t;"; done
""", "sqlite3")
row("jq", """echo '{"a":[1,2,{"b":"c"}]}' | jq -c '.a[2].b, (.a[:2] | add)'""", "jq")
row("ssh-keygen: a key, its signature and the check of it", """
ssh-keygen -q -t ed25519 -N '' -f k -C c && echo text > t && ssh-keygen -q -Y sign -f k -n file t 2>&1 && echo "c $(cat k.pub)" > a &&
ssh-keygen -q -Y verify -f a -I c -n file -s t.sig < t | cut -d' ' -f1-3; stat -c %a k
""", "ssh-keygen")
row("openssl: a key, a certificate, a cipher", """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=x -days 2 2>/dev/null && openssl verify -CAfile c c &&
echo text | openssl enc -aes-256-cbc -pbkdf2 -k p | openssl enc -d -aes-256-cbc -pbkdf2 -k p
""", "openssl")
row("find over /usr", "find /usr/share -xdev -type f 2> /dev/null | wc -l; find /usr/bin -maxdepth 1 -name 'g*' | sort | sha256sum; du -s /usr/include | cut -f2", "find")
row("tar, gzip, xz, bzip2", """
cp -r /usr/include/linux d && for z in z J j; do tar c${z}f a.$z d && mkdir o$z && tar x${z}f a.$z -C o$z && diff -r d o$z/d && echo same; done
tar cf - d | tar tf - | wc -l; cp -a d e; ln d/types.h hard; cp --reflink=auto --sparse=always a.z b; cmp a.z b && echo copied
""", ("tar", "gzip", "xz", "bzip2"))
row("perl", """perl -MPOSIX -MSocket -e 'my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, " ", join(",", sort { $a <=> $b } map { $_ * 2 } 1..5), " ", strftime("%Y", gmtime 0), "\\n"; open my $f, "-|", "echo piped"; print <$f>; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die; print "pair\\n"'""", "perl")
row("awk, sed, sort, uniq, cut, join, paste, xargs -P", """
seq 1000 | awk '{s += $1} END {print s}'; seq 20 | sed -n '3~5p' | paste -sd,; seq 50 | xargs -P4 -n5 echo | tr ' ' '\\n' | sort -n | uniq | wc -l
printf 'b 1\\na 2\\n' | sort -S 1M --parallel=2; split -n 4 /usr/bin/env s. && cat s.* | cmp - /usr/bin/env && echo whole
""", ("awk", "sed"))
row("bash: jobs, traps, process substitution, here-documents, co-processes", """
(set -m; sleep 0.1 & jobs | cut -c1-12; fg %1 > /dev/null; echo $?; sleep 9 & kill -STOP %1; kill -CONT %1; kill %1; wait %1; echo $?) 2> /dev/null; diff <(seq 3) <(seq 3) && echo same
trap 'echo got' USR1; kill -USR1 $$; coproc c { cat; }; echo x >&${c[1]}; read -r l <&${c[0]}; echo $l; exec {c[1]}>&-
(ulimit -n 100; ulimit -n); umask 077; touch f; stat -c %a f; kill -0 $$ && echo alive; times > t && wc -l < t
timeout 1 sleep 5; echo $?; nice -n 5 true && echo nice; mkfifo q; (echo fifo > q &); cat q
exec 9> lock; flock 9 && echo locked; cat /dev/null; head -c4 /dev/zero | od -An -tx1
""", "bash")
row("a terminal by script(1)", "script -qec 'tty >/dev/null && stty rows 30 cols 90 && stty size' /dev/null < /dev/null", "script")
row("curl of a file, and of a server inside", """
echo text > t; curl -s file://$PWD/t; python3 -c "
import http.server,threading,subprocess,os
h=http.server.ThreadingHTTPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler)
h.RequestHandlerClass.log_message=lambda *a: None
threading.Thread(target=h.serve_forever,daemon=True).start()
print(subprocess.check_output(['curl','-s','--noproxy','*','http://127.0.0.1:%d/t'%h.server_port]))"
""", ("curl", "python3"))
row("postgresql: a whole server inside, and psql to it", """
B=%s; $B/initdb -D d -A trust -U me --no-sync > log 2>&1 && $B/pg_ctl -D d -w -o "-k $PWD -h ''" -l l start > /dev/null &&
psql -h "$PWD" -U me -Atc 'create table t as select g from generate_series(1,1000) g; select sum(g) from t' postgres; $B/pg_ctl -D d -m fast -w stop > /dev/null; psql --version
""" % PGBIN, (PGBIN + "/initdb", "psql"))
row("strings, objdump, readelf, ldd", "readelf -h /usr/bin/env | grep -c Class; ldd /usr/bin/env | grep -c libc; objdump -f /usr/bin/env | grep -c start", ("readelf", "ldd"))
row("who and where: whoami fails no program", "id -un > /dev/null && echo named; hostname > /dev/null && echo host; date -u -d @0 +%s; TZ=Europe/Berlin date -d @0 +%H; locale -a | grep -c C.utf8; getent hosts localhost | wc -l; getent passwd root | cut -d: -f1; uname -s; nproc > /dev/null && echo nproc; free > /dev/null; ps -e > /dev/null && echo ps; uptime > /dev/null && echo up; df /tmp > /dev/null && echo df", "ps")


def there(p):
    return os.path.exists(p) if p.startswith("/") else shutil.which(p, path="/usr/local/bin:/usr/bin:/bin")


ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/work", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "USER": "agent", "LOGNAME": "agent"}


def outside(d, argv):
    """As a user with a name, who owns the directory."""
    if ROOT:
        with open("/etc/passwd", encoding="ascii") as old, open(d + ".passwd", "w", encoding="ascii") as new:
            new.write(old.read() + "agent:x:%d:%d::/work:/bin/bash\n" % (USER, USER))
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                'mount --bind "$0" /mnt && mount --bind "$0.passwd" /etc/passwd && cd /mnt && HOME=/mnt exec setpriv --reuid %d --regid %d --clear-groups -- "$@"'
                % (USER, USER), d] + argv
    return subprocess.run(argv, cwd=d, env=dict(ENV, HOME=d), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=300)


def inside(d, argv):
    return subprocess.run(CLI + ["--workspace", d, "--memory", "2048", "--"] + argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=300)


for n, (name, script, needs, lang) in enumerate(ROWS):
    missing = [p for p in needs if not there(p)]
    if missing:
        tap.ok(True, "%s # SKIP no %s here" % (name, ", ".join(missing)))
        continue
    argv = ["bash", "-c", script] if lang == "bash" else ["python3", "-c", script]
    if lang == "python" and "__main__" in script:
        argv = ["python3", "script.py"]
    got = []
    for where in (outside, inside):
        d = "%s/%d-%s" % (T, n, where.__name__)
        os.mkdir(d)
        if argv[-1] == "script.py":
            with open(d + "/script.py", "w", encoding="utf-8") as f:
                f.write(script)
        if ROOT and where is outside:
            subprocess.run(["chown", "-R", str(USER), d], check=True)
        r = where(d, argv)
        got.append((r.returncode, r.stdout.replace(d, "/work").replace("/mnt", "/work")))
    tap.ok(got[0] == got[1], name, "outside: exit %d\n%s\ninside: exit %d\n%s" % (got[0][0], got[0][1][-1500:], got[1][0], got[1][1][-1500:]))
    tap.eq(got[0][0], 0, "%s: it works outside at all" % name)

# --- what is refused on purpose, and says so --------------------------------------------------------
if there("strace"):
    r = subprocess.run(CLI + ["--explain", "--", "strace", "-o", "/dev/null", "true"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    tap.ok(r.returncode != 0 and "ptrace" in r.stdout and "strace" in r.stdout, "strace is refused, and --explain names the call and the program", r.stdout)
r = subprocess.run(CLI + ["--explain", "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
tap.ok(r.returncode == 0 and "no system call was refused" in r.stdout, "and of a program that was refused nothing it says that", r.stdout)
tap.done()
