"""A sequence that fell behind its table."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE invoices (id serial PRIMARY KEY, total int);"
           "INSERT INTO invoices (id, total) SELECT g, g FROM generate_series(1, 740) g; SELECT setval('invoices_id_seq', 612)")
    WRONG = (("RESTART WITH 741", "RESTART WITH 740"),)

    def check(self, work, playing):
        if self.sql("SELECT count(*), max(id), sum(total) FROM invoices") != [(740, 740, 740 * 741 // 2)]:
            return "rows were changed"
        n = self.one("SELECT nextval('invoices_id_seq')")
        return "" if n == 741 else "the next invoice would be %d" % n
