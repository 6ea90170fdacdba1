"""What the documentation says becomes a setting; its page also names the value of before."""
from tasks import Task as Base


class Task(Base):
    DOCS = True
    SQL = ("CREATE TABLE retention (name text PRIMARY KEY, days int, changed int DEFAULT 0);"
           "INSERT INTO retention VALUES ('sessions', 14), ('audit_events', 2555), ('carts', 90)")
    WRONG = (("days = 45", "days = 60"),)

    def check(self, work, playing):
        got = dict(self.sql("SELECT name, days FROM retention"))
        return "" if got == {"sessions": 14, "audit_events": 2555, "carts": 45} else "the table says %s" % got
