"""A new column is filled in batches; a trigger writes down how large each was."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE prices (id int PRIMARY KEY, amount text NOT NULL);"
           "INSERT INTO prices SELECT g, (g / 100.0)::numeric(10,2)::text FROM generate_series(1, 2000) g")
    WRONG = (("range(1, 2001, 500)", "range(1, 2001, 1000)"), ("lo + 499", "lo + 999"))

    def setup(self):
        self.sql("CREATE SCHEMA watch; CREATE TABLE watch.batches (n int);"
                 "CREATE FUNCTION watch.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
                 " 'BEGIN INSERT INTO watch.batches SELECT count(*) FROM new_rows; RETURN NULL; END';"
                 "CREATE TRIGGER note AFTER UPDATE ON prices REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION watch.note();")

    def check(self, work, playing):
        if not self.sql("SELECT 1 FROM pg_attribute WHERE attrelid = 'prices'::regclass AND attname = 'amount_cents'"):
            return "there is no amount_cents"
        wrong = self.one("SELECT count(*) FROM prices WHERE amount_cents IS DISTINCT FROM id OR amount <> (id / 100.0)::numeric(10,2)::text")
        if wrong or self.one("SELECT count(*) FROM prices") != 2000:
            return "%d rows are wrong" % wrong
        most = self.one("SELECT max(n) FROM watch.batches")
        return "" if most is not None and most <= 500 else "a statement changed %s rows" % most
