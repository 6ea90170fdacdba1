"""Two parts of the work are done by child runs that may only read."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE branch_north (amount int); INSERT INTO branch_north SELECT g FROM generate_series(1, 100) g;"
           "CREATE TABLE branch_south (amount int); INSERT INTO branch_south SELECT g FROM generate_series(1, 50) g;"
           "CREATE TABLE sums (branch text PRIMARY KEY, total int)")
    WRONG = (("('south', 1275)", "('south', 50)"),)

    def check(self, work, playing):
        got = dict(self.sql("SELECT branch, total FROM sums"))
        if got != {"north": 5050, "south": 1275}:
            return "the sums are %s" % got
        kids = [r["data"] for r in self.field.stack.records("run.start") if r["data"].get("parent") == playing.run]
        if len(kids) < 2:
            return "%d subagents were at work" % len(kids)
        return "" if all(set(k.get("effects", ["write"])) <= {"read", "txn"} for k in kids) else "a subagent could do more than read"
