"""Programs and modules with one check taken out. A test whose table names them shows that it would see each of them missing."""
import concurrent.futures
import os
import re
import subprocess
import types

from harness import BUILD, TOP

CC = os.environ.get("CC", "gcc").split()
FLAGS = {"asan": ["-fsanitize=address,undefined"], "cov": ["--coverage"]}.get(os.environ.get("MODE"), [])


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def linked(what, program):
    return re.search(r"^%s_%s\s*=\s*(.*)$" % (what, program), read(TOP + "/Makefile"), re.M)[1].split()


def table(text, indent):
    """Rows `words ~ words ~ ...`; a line that begins with `indent` goes on the one before."""
    return [[w.strip(" ").replace("\0", "\n" + indent) for w in line.split("~")]
            for line in text.strip().replace("\n" + indent, "\0").split("\n")]


def c_mutant(at, path, old, new, main=BUILD + "/cmd/cmd_main.o", program="cofferdam-cmd", *more):
    """The program (linked with `more`, too) with `new` for `old` (white space as it comes) in one of its files, built as `at`; or why not."""
    pattern = r"\s+".join(map(re.escape, old.split()))
    source = read(TOP + "/" + path)
    found = len(re.findall(pattern, source))
    if found != 1:
        return "%s: stands there %d times: %s" % (path, found, old)
    with open(at + ".c", "w", encoding="utf-8") as f:
        f.write(re.sub(pattern, lambda _: new, source))
    libs = ["%s/lib%s.a" % (BUILD, x) for x in linked("USE", program)]
    r = subprocess.run(CC + ["-std=gnu17", "-D_GNU_SOURCE", "-w", "-O0", "-I" + TOP, "-I" + BUILD, *FLAGS, "-o", at, at + ".c", main,
                             "-Wl,--start-group", *libs, "-Wl,--end-group", *linked("EXT", program), *more], capture_output=True, text=True)
    return "%s does not build: %s" % (path, r.stderr[-200:]) if r.returncode else None


def py_mutant(path, old, new):
    """The module with `new` for `old`; or why not."""
    source = read(path)
    if source.count(old) != 1:
        return "stands there %d times: %s" % (source.count(old), old)
    m = types.ModuleType("mutant")
    exec(compile(source.replace(old, new), "mutant", "exec"), m.__dict__)
    return m


def each_is_seen(tap, rows, why, text):
    """why(row): why nothing saw that its check is missing, or None. Two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        alive = [x for x in pool.map(why, rows) if x]
    for x in alive:
        print("# " + x)
    tap.eq(len(alive), 0, text % len(rows))


def py_seen(tap, path, rows, blind, text):
    """The same of a module; blind(mutant, name): that scene looks as it does with the check."""
    alive = []
    for old, new, names in rows:
        m = py_mutant(path, old, new)
        if isinstance(m, str):
            alive.append(m)
        elif all(blind(m, x) for x in names.split()):
            alive.append("without `%s`: %s is still seen" % (old, names))
    for x in alive:
        print("# " + x)
    tap.eq(len(alive), 0, text % len(rows))
