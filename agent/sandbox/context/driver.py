# A Python interpreter that keeps its variables: runs inside, as the program of a context, in the
# same process as the code of its cells. It speaks frames (sandbox_cell.h) over descriptor 10, so
# nothing that a cell prints can be taken for them. It protects nothing: the caller checks it all.
import os
import sys


class Context:
    """What the driver holds; cells see none of it by name."""

    wire, pid = 10, os.getpid()
    running = False  # a cell is: then an interrupt is for it
    sending, pending = 0, False
    cells, flags, loop = 0, 0, None
    shown, shown_bytes = 0, 0  # by this cell


# Below what the caller lets pass: more ends the interpreter there.
PLAIN_MAX, BUNDLE_MAX, SHOWN_MAX, SHOWN_BYTES_MAX = 1 << 20, 6 << 20, 900, 50 << 20


def text_of(v):
    return v if isinstance(v, str) else str(v)


def encode(text):
    return text.encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")


def field(data):
    return b"%010d" % len(data) + data


def send(kind, body):
    """One frame, whole: an interrupt waits until it is out."""
    if os.getpid() != Context.pid:
        return
    Context.sending += 1
    try:
        with lock:
            data = memoryview(b"%c%010d\n" % (kind, len(body)) + body)
            while data:
                data = data[os.write(Context.wire, data):]
    finally:
        Context.sending -= 1
    if Context.pending and not Context.sending:
        Context.pending = False
        if Context.running:
            raise KeyboardInterrupt


def on_interrupt(_signal, _frame):
    if Context.sending:
        Context.pending = True
    elif Context.running:
        raise KeyboardInterrupt


def take():
    """The next cell; None: the caller is gone."""
    data = os.read(Context.wire, 65536)
    while 0 < len(data) < 12:
        more = os.read(Context.wire, 65536)
        if not more:
            return None
        data += more
    if not data:
        return None
    size = int(data[1:11])
    parts, have = [data[12:]], len(data) - 12
    while have < size:
        more = os.read(Context.wire, 65536)
        if not more:
            return None
        parts.append(more)
        have += len(more)
    return b"".join(parts).decode("utf-8", "replace")


# --- what a value looks like -------------------------------------------------------------

METHODS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"),
           ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
           ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
           ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
           ("_repr_javascript_", "application/javascript"))


def as_text(kind, v):
    """A value of a MIME bundle as the wire has it: bytes in base64, structures in JSON."""
    if isinstance(v, (bytes, bytearray)):
        import base64
        return base64.b64encode(v).decode()
    if isinstance(v, str):
        return v
    if kind == "application/json" or kind.endswith("+json"):
        import json
        return json.dumps(v)
    return text_of(v)


def bundle_of(obj, raw=False):
    found = {}
    if raw:
        found = dict(obj)
    elif not isinstance(obj, type):
        whole = getattr(obj, "_repr_mimebundle_", None)
        if callable(whole):
            whole = whole(include=None, exclude=None)
            found.update((whole[0] if isinstance(whole, tuple) else whole) or {})
        for method, kind in METHODS:
            show = getattr(obj, method, None) if kind not in found else None
            show = show() if callable(show) else None
            if show is not None:
                found[kind] = show[0] if isinstance(show, tuple) else show
    if not raw and "text/plain" not in found:
        found["text/plain"] = repr(obj)
    return found


def left_out(what):
    print("left out: " + what, file=sys.stderr)


def send_bundle(frame, found):
    body, size = b"", 0
    for kind in sorted(found, key=text_of):
        if found[kind] is None:
            continue
        if not isinstance(kind, str) or not MIME.fullmatch(kind) or len(kind) > 127:
            left_out("%r is not a MIME type" % (kind,))
            continue
        data = encode(as_text(kind, found[kind]))
        if kind == "text/plain" and len(data) > PLAIN_MAX:
            data = encode(data[:PLAIN_MAX].decode("utf-8", "ignore") + " ... (cut)")
        if size + len(data) > BUNDLE_MAX:
            left_out("%s of more than %d bytes" % (kind, BUNDLE_MAX))
            continue
        size += len(data)
        body += field(kind.encode()) + field(data)
    Context.shown += 1
    Context.shown_bytes += size
    if Context.shown > SHOWN_MAX or Context.shown_bytes > SHOWN_BYTES_MAX:
        left_out("more displays than one cell may have")
    elif body:
        send(frame, body)


def display(*objs, raw=False, **_):
    for obj in objs:
        send_bundle(ord("B"), bundle_of(obj, raw))


def figures():
    """Open figures of matplotlib, if the code has it: each is shown once."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or not hasattr(plt, "get_fignums"):
        return
    for number in plt.get_fignums():
        import io
        png, figure = io.BytesIO(), plt.figure(number)
        figure.savefig(png, format="png", bbox_inches="tight")
        send_bundle(ord("B"), {"image/png": png.getvalue(), "text/plain": repr(figure)})
    plt.close("all")


# --- one cell ----------------------------------------------------------------------------

def evaluate(tree, name, mode):
    code = compile(tree, name, mode, Context.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    Context.flags |= code.co_flags & FUTURE
    value = eval(code, main.__dict__)
    if not code.co_flags & 0x80:  # CO_COROUTINE
        return value
    import asyncio
    if Context.loop is None or Context.loop.is_closed():
        Context.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(Context.loop)
    task = Context.loop.create_task(value)
    try:
        return Context.loop.run_until_complete(task)
    finally:
        if not task.done():  # interrupted
            task.cancel()
            try:
                Context.loop.run_until_complete(task)
            except BaseException:
                pass


def execute(text):
    Context.cells += 1
    Context.shown = Context.shown_bytes = 0
    name = "<cell %d>" % Context.cells
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    tree = compile(text, name, "exec", Context.flags | ast.PyCF_ONLY_AST |
                   ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    if tree.body:
        evaluate(tree, name, "exec")
    if last is not None:
        value = evaluate(last, name, "eval")
        if value is not None and not text.rstrip().endswith(";"):
            main.__dict__["_"] = value
            send_bundle(ord("V"), bundle_of(value))
    figures()


def ours(tb):
    """The traceback from its first frame in a cell on, without the driver's own."""
    kept = []
    while tb is not None:
        if tb.tb_frame.f_globals is not globals():
            kept.append(tb)
        tb = tb.tb_next
    while kept and not kept[0].tb_frame.f_code.co_filename.startswith("<cell "):
        kept.pop(0)
    for part in reversed(kept):
        tb = TracebackType(tb, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return tb


def describe(e):
    try:
        value = str(e)
    except BaseException:
        value = "(no text)"
    try:
        trace = "".join(traceback.format_exception(type(e), e, ours(e.__traceback__)))
    except BaseException:
        trace = value
    return [type(e).__name__, value[:65536], trace[-262144:]]


def run(text):
    end = ["ok", "", "", ""]
    try:
        try:
            Context.pending = False
            Context.running = True
            execute(text)
        finally:
            Context.running = False
    except BaseException as e:
        Context.running = False  # the interrupt may have come before it was so
        end = ["interrupted" if isinstance(e, KeyboardInterrupt) else "error"] + describe(e)
    if os.getpid() != Context.pid:  # a fork that came back from its cell
        os._exit(0 if end[0] == "ok" else 1)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            pass
    send(ord("E"), b"".join(field(encode(part)) for part in end))


# --- begin -------------------------------------------------------------------------------

def libc_unbuffered():
    """What extensions write through C's stdio comes out at once, too, and so in order."""
    try:
        import ctypes
        libc = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):
            libc.setvbuf(ctypes.c_void_p.in_dll(libc, name), None, 2, 0)
    except Exception:
        pass


import builtins
import signal
from _thread import allocate_lock
from types import ModuleType, TracebackType

lock = allocate_lock()
signal.signal(signal.SIGINT, on_interrupt)
os.set_inheritable(Context.wire, False)
send(ord("H"), b"cofferdam-context 1")
# The caller is answered; what follows is ready before most first cells come.
import __future__
import ast
import linecache
import re
import traceback
import warnings

MIME = re.compile(r"[a-z0-9][a-z0-9.+_-]*/[a-z0-9.+_-]+")
FUTURE = 0
for feature in __future__.all_feature_names:
    FUTURE |= getattr(__future__, feature).compiler_flag
warnings.filterwarnings("ignore", message=".*(non-GUI backend|non-interactive)")
libc_unbuffered()
driver, main = sys.modules["__main__"], ModuleType("__main__")
main.__dict__["__builtins__"] = builtins
builtins.display = display
sys.modules["__main__"], sys.argv = main, [""]
while True:
    cell = take()
    if cell is None:
        break
    run(cell)
