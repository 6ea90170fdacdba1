"""Of five indexes one is superfluous."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE visits (id int PRIMARY KEY, page text, day date, who int);"
           "CREATE INDEX visits_page_day ON visits (page, day); CREATE INDEX visits_day_page ON visits (day, page);"
           "CREATE INDEX visits_partial ON visits (who) WHERE who > 0; CREATE UNIQUE INDEX visits_who ON visits (who);"
           "CREATE INDEX visits_tmp_3 ON visits (page, day)")
    WRONG = (("DROP INDEX visits_tmp_3", "DROP INDEX visits_day_page"),)

    def check(self, work, playing):
        got = [r[0] for r in self.sql("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'visits'::regclass ORDER BY 1")]
        kept = ["visits_day_page", "visits_partial", "visits_pkey", "visits_who"]
        twins = {"visits_page_day", "visits_tmp_3"}
        return "" if sorted(set(got) - twins) == kept and len(set(got) & twins) == 1 else "there are " + ", ".join(got)
