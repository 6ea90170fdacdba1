"""Duplicates go, the oldest stay, and a constraint keeps it so."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE subscribers (id int PRIMARY KEY, mail text NOT NULL);"
           "INSERT INTO subscribers SELECT g, 'p' || g % 70 || '@example.test' FROM generate_series(1, 80) g")
    WRONG = (("d.id > s.id", "d.id < s.id"),)

    def check(self, work, playing):
        got = [r[0] for r in self.sql("SELECT id FROM subscribers ORDER BY id")]
        if got != list(range(1, 71)):
            return "%d rows are left, among them not all of the oldest" % len(got)
        unique = self.sql("SELECT 1 FROM pg_constraint WHERE conrelid = 'subscribers'::regclass AND contype = 'u'")
        return "" if unique else "nothing keeps it so"
