"""A request, waited for with the tool that is there for it."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE staging_rows (id int); INSERT INTO staging_rows SELECT g FROM generate_series(1, 30) g;"
           "CREATE TABLE live_rows (id int); INSERT INTO live_rows VALUES (1)")
    WRONG = (('{"tool": "wait_approval", "input": {"id": "${request ([a-z2-7]{26})}", "timeout_s": 60}}', ""),
             ('{"text": "Signed: now it passes.", "tools": [{"tool": "run_command", "input": {"language": "bash", "command": "@SQL@"}}]},', ""))

    def setup(self):
        self.values["SQL"] = self.values["PSQL"] + " -c 'TRUNCATE staging_rows'"

    def check(self, work, playing):
        n = self.one("SELECT count(*) FROM staging_rows")
        return "%d rows are left" % n if n else "" if self.one("SELECT count(*) FROM live_rows") == 1 else "another table was emptied"
