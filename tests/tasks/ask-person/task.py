"""Only a person knows which of two tables it is."""
from tasks import Task as Base


class Task(Base):
    SQL = "CREATE TABLE archive_a (id int); CREATE TABLE archive_b (id int); INSERT INTO archive_b VALUES (2); INSERT INTO archive_a VALUES (1)"
    WRONG = (('## call ask\n{"question": "Which archive have the auditors signed off: archive_a or archive_b?", "timeout_s": 60}', "## say\nI guess."),)

    def answer(self, question):
        return "The auditors have signed off archive_b."

    def check(self, work, playing):
        if self.one("SELECT to_regclass('archive_final')") is None:
            return "there is no archive_final"
        if self.one("SELECT id FROM archive_final") != 2 or self.one("SELECT to_regclass('archive_a')") is None:
            return "it is the wrong one"
        return "" if playing.questions else "nobody was asked"
