#!/usr/bin/python3
"""A taken-over front cannot make upstream send what core did not judge: each lie is told for real."""
import os
import shutil
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import harness
from harness import BUILD, HostRun, Pg, Stack, Tap, Temp, must, wait_for

tap = Tap()
temp = Temp("liar")
pg = Pg(temp)
pg.admin("CREATE TABLE t(id int); INSERT INTO t VALUES (1),(2),(3); ALTER TABLE t OWNER TO agent;"
         "CREATE TABLE slow(id int); ALTER TABLE slow OWNER TO agent;"
         "CREATE FUNCTION crawl() RETURNS trigger LANGUAGE plpgsql AS $$begin perform pg_sleep(5); return new; end$$;"
         "CREATE TRIGGER c BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION crawl()")
pg.log_statements()
# The programs find one another beside the running one: a folder where front is the liar.
lib = temp.path + "/bin"
os.mkdir(lib)
for f in os.listdir(BUILD):
    if f.startswith("cofferdam") and os.path.isfile(BUILD + "/" + f):
        shutil.copy(BUILD + "/" + f, lib + "/" + f)
shutil.copy(BUILD + "/tool_lying_front", lib + "/cofferdam-front")
lies = must([BUILD + "/tool_lying_front", "--list"]).splitlines()
st = Stack(temp, pg, start=False)
harness.BUILD = lib
st.start()
harness.BUILD = BUILD
hr = HostRun(st)
port, addr = hr.port["crm-db"], hr.address["crm-db"]


def tell(n):
    """What came back for lie n; retried while core re-registers the listener with a new wire."""
    for _ in range(100):
        try:
            with socket.create_connection((addr, port), timeout=5) as s:
                s.sendall(bytes([n]))
                s.settimeout(20)
                got = s.recv(300).decode().strip()
                if got:
                    return got
        except OSError as e:
            got = str(e)
        time.sleep(0.1)
    return "no answer: " + got


for n, name in enumerate(lies):
    got = tell(n)
    if "control" in name:
        tap.eq(got, "done", name + " passes")
    elif name in ("a query as COPY data", "a cancel of a connection that is not there"):
        tap.eq(got, "done", name + ": is data, or nothing")
    elif name == "another connection's number":
        tap.ok(got.startswith(("ignored", "gone", "wire ended")), "%s: %s" % (name, got))
    elif name in ("two acts at once", "a portal that was never bound"):
        tap.ok(got.startswith(("refused", "wire ended", "gone", "done")), "%s: %s" % (name, got))
    elif name == "a lease of its own to upstream":
        tap.eq(got, "sent to upstream", name)
    else:
        tap.ok(got.startswith(("refused", "wire ended", "gone")), "%s: %s" % (name, got))
tap.eq(wait_for(lambda: tell(0) == "done" and "done", 20), "done", "after all the lies an honest read still passes")
time.sleep(0.5)
tap.ok("DELETE" not in pg.server_log().replace("duration", ""), "the server never saw the statement",
       [l for l in pg.server_log().splitlines() if "DELETE" in l])
tap.eq(pg.admin("SELECT count(*) FROM t WHERE id < 100"), "3", "and every row is there")
tap.eq(pg.admin("SELECT count(*) FROM t WHERE id = 666") + pg.admin("SELECT count(*) FROM slow"), "00", "no row came as data that was not asked for")
tap.eq(pg.admin("SELECT count(*) > 0 FROM t WHERE id = 100"), "t", "that of the honest COPY is there")
hr.end()
tap.ok("VERIFIED" in st.verify().stdout, "the log verifies")
tap.done()
