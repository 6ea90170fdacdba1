"""60 orphans, deleted in parts that a person signs and that stay below the row limit."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT g FROM generate_series(1, 200) g;"
           "CREATE TABLE order_lines (id int PRIMARY KEY, order_id int);"
           "INSERT INTO order_lines SELECT g, 1 + g % 200 FROM generate_series(1, 600) g;"
           "INSERT INTO order_lines SELECT g, 1000 + g FROM generate_series(601, 660) g")
    RULES = ({"id": "orphan-rows-few", "require": {"target": ["@DB@"], "effects": {"any": ["delete"]}},
              "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m", "limits": {"max_rows": 40}},)
    WRONG = (("BETWEEN 631 AND 660", "BETWEEN 641 AND 660"),)

    def check(self, work, playing):
        left = self.one("SELECT count(*) FROM order_lines WHERE order_id NOT IN (SELECT id FROM orders)")
        if left:
            return "%d orphans are left" % left
        kept = self.one("SELECT count(*) FROM order_lines")
        return "" if kept == 600 and self.one("SELECT count(*) FROM orders") == 200 else "%d lines are left of 600" % kept
