"""A table becomes a partitioned one, with all of its rows."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE measurements (day date NOT NULL, sensor int NOT NULL, value int);"
           "INSERT INTO measurements SELECT date '2026-01-01' + g % 90, g, g FROM generate_series(0, 899) g")
    WRONG = (("FROM ('2026-03-01') TO ('2026-04-01')", "FROM ('2026-03-01') TO ('2026-03-31')"),)

    def check(self, work, playing):
        if self.one("SELECT relkind::text FROM pg_class WHERE relname = 'measurements'") != "p":
            return "measurements is not partitioned"
        if self.one("SELECT count(*) FROM measurements") != 900 or self.sql("SELECT * FROM measurements EXCEPT SELECT * FROM measurements_old"):
            return "rows are missing: %d of 900" % self.one("SELECT count(*) FROM measurements")
        for m in ("01", "02", "03"):
            got = self.sql("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'measurements_2026_%s'" % m)
            end = "2026-%02d-01" % (int(m) + 1)
            if not got or "2026-%s-01" % m not in got[0][0] or end not in got[0][0]:
                return "the partition of month %s is not that month" % m
        return ""
