"""Two files that do not agree; references are spelt in two ways, amounts too."""
import json

from tasks import Task as Base, report


class Task(Base):
    DATABASE = False
    WRONG = ((".upper().replace(' ', '')", ""),)

    def workspace(self, path):
        with open(path + "/bank.csv", "w", encoding="ascii") as f:
            f.write("reference;amount\n" + "".join("rf %03d;%d,%02d\n" % (n, n, n % 100) for n in range(1, 101) if n not in (17, 40)))
        with open(path + "/ledger.json", "w", encoding="ascii") as f:
            json.dump([{"reference": "RF%03d" % n, "amount": "%d.%02d" % (n, (n + (n == 77)) % 100)} for n in range(1, 101) if n != 63], f)

    def check(self, work, playing):
        got = report(work, "differences.json")
        want = {"missing_in_ledger": ["63"], "missing_at_bank": ["17", "40"], "amount_differs": ["77"]}
        try:
            short = {k: [str(x).replace(" ", "")[-2:] for x in v] for k, v in got.items()}
        except (AttributeError, TypeError):
            return "there is no such file"
        return "" if short == want else "it says %s" % str(short)[:200]
