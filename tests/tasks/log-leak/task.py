"""A handler that sometimes does not give its connection back, among one that is busy and one that is only slow."""
import os

from tasks import Task as Base, report


class Task(Base):
    DATABASE = False
    WRONG = (("if r in done and", "if"),)

    def workspace(self, path):
        lines, open_ = [], 0
        for n in range(3000):
            handler = ("list-orders", "export-report", "login", "checkout")[n % 4]
            lines.append("req=%d handler=%s acquire conn=%d" % (n, handler, n % 50))
            if handler == "export-report" and n % 100 == 1:
                lines.append("req=%d handler=%s error timeout" % (n, handler))
            elif n < 2960 or handler != "list-orders":
                lines.append("req=%d handler=%s release conn=%d" % (n, handler, n % 50))
            else:
                open_ += 1
                continue
            lines.append("req=%d handler=%s done" % (n, handler))
        os.makedirs(path + "/logs")
        for i in range(3):
            with open("%s/logs/service.log.%d" % (path, i), "w", encoding="ascii") as f:
                part = lines[i * len(lines) // 3:(i + 1) * len(lines) // 3]
                f.write("\n".join(part) + "\n")

    def check(self, work, playing):
        got = report(work, "leak.json")
        return "" if got == {"handler": "export-report", "leaked": 30} else "it says %s" % got
