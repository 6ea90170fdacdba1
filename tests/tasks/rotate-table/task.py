"""A table is renamed and begun anew in one transaction, with everything that belonged to it."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE events (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), kind text NOT NULL DEFAULT 'none');"
           "CREATE INDEX events_at ON events (at);"
           "INSERT INTO events (id) SELECT g FROM generate_series(1, 3000) g")
    WRONG = (("LIKE events_2026_10 INCLUDING ALL", "LIKE events_2026_10"),)

    def check(self, work, playing):
        if self.one("SELECT to_regclass('events_2026_10')") is None or self.one("SELECT count(*) FROM events_2026_10") != 3000:
            return "the old rows are not in events_2026_10"
        if self.one("SELECT to_regclass('events')") is None or self.one("SELECT count(*) FROM events") != 0:
            return "events is not empty"
        shape = ("SELECT attname, atttypid, attnotnull, pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
                 " WHERE attrelid = '%s'::regclass AND attnum > 0 ORDER BY attnum")
        if self.sql(shape % "events") != self.sql(shape % "events_2026_10"):
            return "the columns are others"
        index = "SELECT indkey::text, indisprimary FROM pg_index WHERE indrelid = '%s'::regclass ORDER BY 1"
        return "" if self.sql(index % "events") == [("1", True), ("2", False)] else "events lacks its primary key or its index"
