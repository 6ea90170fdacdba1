"""What the sanitizers of MODE=asan say, of whichever process: in a directory of its own for each test, since who is ended by
one may be nobody's child, and what it prints nobody's to read. The broker's children open no files: theirs stands in its log."""
import atexit
import glob
import os
import shutil
import tempfile

DIR, logs = None, []  # logs: files that processes print to

if os.environ.get("MODE") == "asan":
    DIR = tempfile.mkdtemp(prefix="cofferdam-said.")
    os.chmod(DIR, 0o1777)
    atexit.register(shutil.rmtree, DIR, True)
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        os.environ[name] = ":".join(filter(None, (os.environ.get(name), "log_path=%s/%s" % (DIR, name[:4].lower()))))


def no_leaks():
    """ASAN_OPTIONS of a process that nobody may trace: it cannot look for leaks at its end."""
    return ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))


def said():
    """One text for each file with a report in it."""
    texts = []
    for path in logs + (sorted(glob.glob(DIR + "/*")) if DIR else []):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue  # its test has removed it
        at = min([i for i in (text.find("Sanitizer:"), text.find("runtime error:")) if i >= 0], default=-1)
        if at >= 0:
            texts.append("%s:\n%s" % (path, text[max(0, at - 200):at + 3000]))
    return texts


def errors(name):
    """Where a confined process that a test starts itself prints to: it opens no files."""
    return open("%s/%s" % (DIR, name), "ab") if DIR else None
