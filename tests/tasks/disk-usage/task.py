"""The three largest tables by all that they take: by the heap alone it would be others."""
from tasks import Task as Base, report


class Task(Base):
    SQL = ("CREATE TABLE small (id int); INSERT INTO small SELECT g FROM generate_series(1, 100) g;"
           "CREATE TABLE heap (id int, a text); INSERT INTO heap SELECT g, repeat('x', 50) FROM generate_series(1, 6000) g;"
           "CREATE TABLE middle (id int, a text); INSERT INTO middle SELECT g, repeat('y', 50) FROM generate_series(1, 4500) g;"
           "CREATE TABLE indexed (a int, b int, c int); INSERT INTO indexed SELECT g, g, g FROM generate_series(1, 4000) g;"
           "CREATE INDEX ON indexed (a); CREATE INDEX ON indexed (b); CREATE INDEX ON indexed (c); CREATE INDEX ON indexed (a, b, c);"
           "CREATE TABLE toasted (id int, a text); ALTER TABLE toasted ALTER a SET STORAGE EXTERNAL;"
           "INSERT INTO toasted SELECT g, repeat('z', 20000) FROM generate_series(1, 60) g")
    WRONG = (("pg_total_relation_size", "pg_relation_size"),)

    def check(self, work, playing):
        truth = self.sql("SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
                         " ORDER BY 2 DESC LIMIT 3")
        got = report(work, "report.json")
        try:
            got = [(r["table"].split(".")[-1], int(r["bytes"])) for r in got]
        except (TypeError, KeyError, ValueError, AttributeError):
            return "there is no report of that form"
        return "" if got == truth else "it says %s, it is %s" % (got, truth)
