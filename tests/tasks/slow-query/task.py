"""A query that reads the whole table; the index that it needs is added with an approval."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE orders (id int PRIMARY KEY, customer_id int, state text, total int);"
           "INSERT INTO orders SELECT g, g % 2000, CASE WHEN g % 5 = 0 THEN 'open' ELSE 'done' END, g FROM generate_series(1, 20000) g;"
           "CREATE INDEX orders_state ON orders (state)")
    RULES = ({"id": "slow-query-schema", "require": {"target": ["@DB@"], "effects": {"any": ["schema"]}},
              "approve": [{"role": "dba", "count": 1}], "within": "30m", "use_within": "5m"},)
    WRONG = (("orders (customer_id)", "orders (total)"),)

    def check(self, work, playing):
        if self.one("SELECT count(*) FROM orders") != 20000:
            return "rows are gone"
        self.sql("ANALYZE orders")
        plan = "\n".join(r[0] for r in self.sql("EXPLAIN SELECT id, total FROM orders WHERE customer_id = 77 AND state = 'open' ORDER BY id DESC LIMIT 20"))
        new = self.sql("SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'orders'::regclass AND i.indisvalid"
                       " AND c.relname NOT IN ('orders_pkey', 'orders_state')")
        if not any(r[0] in plan for r in new):
            return "the query has no index of its own"
        return "" if len(new) == 1 else "%d indexes were added" % len(new)
