"""Missing rows come back from a copy; newer ones stay, and what was deleted on purpose stays away."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE customers_backup (id int PRIMARY KEY, name text); INSERT INTO customers_backup SELECT g, 'old ' || g FROM generate_series(1, 100) g;"
           "CREATE TABLE customers (id int PRIMARY KEY, name text); INSERT INTO customers SELECT * FROM customers_backup WHERE id NOT BETWEEN 40 AND 60;"
           "UPDATE customers SET name = 'new ' || id WHERE id % 10 = 0; INSERT INTO customers VALUES (101, 'new 101');"
           "CREATE TABLE closed_accounts (customer_id int); INSERT INTO closed_accounts VALUES (41), (55)")
    WRONG = ((" AND NOT EXISTS (SELECT FROM closed_accounts a WHERE a.customer_id = b.id)", ""),)

    def check(self, work, playing):
        if self.one("SELECT count(*) FROM customers WHERE id IN (41, 55)"):
            return "closed accounts are back"
        want = {g: "old %d" % g for g in range(1, 101) if g not in (41, 55)}
        want.update({g: "new %d" % g for g in range(1, 102) if (g % 10 == 0 and not 40 <= g <= 60) or g == 101})
        got = dict(self.sql("SELECT id, name FROM customers"))
        return "" if got == want else "%d rows are not as they should be" % len(set(got.items()) ^ set(want.items()))
