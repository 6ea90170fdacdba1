#!/usr/bin/python3
"""The example of docs/replay.md: every command of it, in its order, against a real broker and a real PostgreSQL."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from harness import Pg, Tap, Temp  # noqa: E402
from tutorial import Tutorial  # noqa: E402

t = Tap()
temp = Temp("replay-example")
pg = Pg(temp)
pg.admin("CREATE TABLE contacts (id int PRIMARY KEY, name text)")
pg.admin("INSERT INTO contacts SELECT g, 'contact ' || g FROM generate_series(1, 12) g")
pg.admin("ALTER TABLE contacts OWNER TO agent")
Tutorial(t, temp, pg, "replay.md", 5).run()
t.done()
