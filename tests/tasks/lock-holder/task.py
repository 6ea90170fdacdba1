"""One session sleeps in a transaction and holds a lock, one waits for it, one is idle: the first is ended."""
import threading

import psycopg2
from harness import wait_for
from tasks import Task as Base


class Task(Base):
    SQL = "CREATE TABLE stock (id int PRIMARY KEY, n int); INSERT INTO stock SELECT g, g FROM generate_series(1, 20) g"
    WRONG = (("= ANY (pg_blocking_pids", "<> ALL (pg_blocking_pids"),)

    def session(self, name):
        c = psycopg2.connect(host="127.0.0.1", port=self.field.pg.port, user="agent", password=self.field.pg.password, dbname=self.db,
                             sslmode="require", application_name=name)
        return c, c.cursor()

    def setup(self):
        self.idle, cur = self.session("reports")
        cur.execute("SELECT 1")
        self.holder, cur = self.session("import-job")
        cur.execute("UPDATE stock SET n = 0 WHERE id = 7")
        self.waiter, cur = self.session("shop")
        self.thread = threading.Thread(target=self.wait, args=(cur,), daemon=True)
        self.got = ""
        self.thread.start()
        wait_for(lambda: self.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"))

    def wait(self, cur):
        try:
            cur.execute("UPDATE stock SET n = n - 1 WHERE id = 7")
            self.waiter.commit()
            self.got = "done"
        except psycopg2.Error as e:
            self.got = str(e)

    def alive(self, name):
        return self.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = '%s'" % name) == 1

    def check(self, work, playing):
        if self.alive("import-job"):
            return "the session that holds the lock lives"
        self.thread.join(10)
        if self.got != "done" or self.one("SELECT n FROM stock WHERE id = 7") != 6:
            return "the one that waited did not get on: " + self.got.strip()
        return "" if self.alive("reports") else "a session that held nothing was ended"

    def ends(self):
        self.holder.close()
        self.thread.join(10)
        self.waiter.close()
        self.idle.close()
