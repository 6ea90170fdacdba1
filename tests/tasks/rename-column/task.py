"""A column is renamed and a view over it goes on under the old name."""
from tasks import Task as Base


class Task(Base):
    SQL = ("CREATE TABLE contacts (id int PRIMARY KEY, name text, phone text, region text);"
           "INSERT INTO contacts SELECT g, 'n' || g, '+49 ' || g, 'EMEA' FROM generate_series(1, 50) g;"
           "CREATE VIEW contacts_v1 AS SELECT id, name, phone FROM contacts")
    WRONG = (("phone_number AS phone, region", "phone_number AS phone, region || '' AS area"),)

    def check(self, work, playing):
        columns = "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped"
        got = self.one(columns % "contacts")
        if got != "id,name,phone_number,region":
            return "contacts has %s" % got
        got = self.one(columns % "contacts_v1")
        if got != "id,name,phone,region":
            return "contacts_v1 has %s" % got
        return "" if self.sql("SELECT * FROM contacts_v1 ORDER BY id") == [(g, "n%d" % g, "+49 %d" % g, "EMEA") for g in range(1, 51)] else "the view gives other rows"
