"""A policy's theorems as SMT-LIB for z3: the second opinion on `cofferdam policy prove`.

Written from docs/format-policy.md alone; shares nothing with the enumerator but the windows that
`policy calendar --json` prints. One query a theorem: is there an action that the theorem says cannot pass?
"""
import datetime
import itertools
import subprocess

EFFECTS = ("read txn write schema delete bulk drop overwrite disrupt session exec priv net audit secret "
           "opaque invalid").split()
SETS = {"@data": ["read", "txn"], "@change": ["write", "schema"],
        "@destructive": ["delete", "bulk", "drop", "overwrite", "disrupt"], "@escape": EFFECTS[9:]}


def listed(v):
    return v if isinstance(v, list) else [v]


def effects(names):
    return sorted({e for n in names for e in SETS.get(n, [n])})


def conj(parts):
    parts = list(parts)
    return "(and true %s)" % " ".join(parts)


def disj(parts):
    parts = list(parts)
    return "(or false %s)" % " ".join(parts)


def neg(x):
    return "(not %s)" % x


def text(s):
    return '"%s"' % s.replace('"', '""')


def glob_re(pattern):
    """The regular expression of a pattern."""
    parts = ["(str.to_re %s)" % text(p) for p in pattern.split("*")]
    out = parts[0]
    for p in parts[1:]:
        out = "(re.++ %s (re.++ re.all %s))" % (out, p)
    return out


def glob(pattern, s):
    """The same of a known string, by the textbook."""
    if not pattern:
        return not s
    if pattern[0] == "*":
        return glob(pattern[1:], s) or (s != "" and glob(pattern, s[1:]))
    return s != "" and pattern[0] == s[0] and glob(pattern[1:], s[1:])


class Tri:
    """yes and no as formulas; what is neither is unknown."""

    def __init__(self, yes, no):
        self.yes, self.no = yes, no


class Model:
    def __init__(self, policy, calendars):
        self.p = policy
        self.targets = sorted(policy["targets"])
        self.people = sorted(policy.get("people", {}))
        self.cal = {c["id"]: c for c in calendars}
        self.names = any(k in r.get(kind, {}) for r in policy["rules"] for kind in ("permit", "require", "forbid")
                         for k in ("relation", "resource"))
        self.lines = []
        self.times = self.joint_states()
        self.declare()

    # --- the calendars, second by second at their edges
    def joint_states(self):
        def seconds(s):
            return datetime.datetime.strptime(s, "%Y-%m-%dT%H:%M:%SZ").replace(
                tzinfo=datetime.timezone.utc).timestamp()
        spans = {n: ([seconds(x) for x in c["valid"]], [[seconds(x) for x in i] for i in c["intervals"]])
                 for n, c in self.cal.items()}
        edges = sorted({e for v, i in spans.values() for e in v + [x for pair in i for x in pair]})
        states = [{n: None for n in spans}]  # the clock is not known
        for at in [edges[0] - 1] + edges if edges else [0]:
            one = {}
            for n, (valid, windows) in spans.items():
                one[n] = any(f <= at < t for f, t in windows) if valid[0] <= at < valid[1] else None
            if one not in states[1:]:
                states.append(one)
        return states

    def declare(self):
        out = self.lines.append
        out("(declare-const target Int)(assert (and (>= target 0) (< target %d)))" % len(self.targets))
        out("(declare-const time Int)(assert (and (>= time 0) (< time %d)))" % len(self.times))
        out("(declare-const owner Int)(assert (and (>= owner -1) (< owner %d)))" % len(self.people))
        out("(declare-const statements Int)(assert (>= statements 1))")
        for a in ("agent", "run"):
            out("(declare-const %s String)(declare-const %s_known Bool)" % (a, a))
        for e in EFFECTS:
            out("(declare-const e_%s Bool)" % e)
        out("(assert %s)" % disj("e_" + e for e in EFFECTS))
        out("(declare-const breakglass Bool)")
        out("(declare-const named Bool)(declare-const schema Bool)")
        out("(declare-const n_first String)(declare-const n_last String)")
        # A name without a dot of its own, and one with: names in double quotes are left out here.
        word = "(re.+ (re.diff re.allchar (re.union (str.to_re \".\") (str.to_re \"\"\"\"))))"
        out("(assert (str.in_re n_last %s))(assert (str.in_re n_first %s))" % (word, word))
        out("(define-fun name () String (ite schema (str.++ n_first (str.++ \".\" n_last)) n_last))")
        for i, r in enumerate(self.p["rules"]):
            out("(declare-const lifted_%d Bool)(declare-const over_%d Bool)" % (i, i))

    def is_target(self, test):
        return disj("(= target %d)" % i for i, t in enumerate(self.targets) if test(t))

    def attr(self, key, patterns):
        if key in ("target", "kind", "env"):
            def value(t):
                return t if key == "target" else self.p["targets"][t][key]
            yes = self.is_target(lambda t: any(glob(p, value(t)) for p in patterns))
            return Tri(yes, neg(yes))
        if key == "owner":
            yes = disj("(= owner %d)" % i for i, n in enumerate(self.people) if any(glob(p, n) for p in patterns))
            return Tri(yes, conj([neg(yes), "(>= owner 0)"]))
        yes = conj([key + "_known", disj("(str.in_re %s %s)" % (key, glob_re(p)) for p in patterns)])
        return Tri(yes, conj([key + "_known", neg(yes)]))

    def calendar_key(self, key, names):
        yes, no = [], []
        for i, state in enumerate(self.times):
            values = [state[n] for n in names]
            inside = True if True in values else None if None in values else False
            value = inside if key == "during" or inside is None else not inside
            if value is not None:
                (yes if value else no).append("(= time %d)" % i)
        return Tri(disj(yes), disj(no))

    def name_key(self, key, patterns, kind):
        sql = self.is_target(lambda t: self.p["targets"][t]["kind"] == "postgres")
        stats = disj('(= n_last "%s")' % v for v in ("pg_stats", "pg_statistic", "pg_stats_ext",
                                                    "pg_stats_ext_exprs", "pg_statistic_ext_data"))
        hit = disj("(str.in_re name %s)" % glob_re(p) for p in patterns)
        # Only one of both names a schema, and the last parts agree: it may be the same.
        maybe = disj("(and (%s schema) (str.in_re n_last %s))" %
                     ("not" if "." in p else "and true", glob_re(p.rsplit(".", 1)[-1])) for p in patterns)
        one_yes = conj(["named", hit])
        one_no = conj(["named", neg(hit), neg("(and %s (or %s %s))" % (sql, maybe, stats))])
        if key == "relation":
            one_yes, one_no = conj([one_yes, sql]), disj([one_no, conj(["named", neg(sql)])])
            named = conj(["named", sql])
        else:
            named = "named"
        if kind == "permit":
            return Tri(conj([named, one_yes]), disj([neg(named), one_no]))
        blur = disj(["e_" + e for e in SETS["@escape"]] + [conj(["e_drop", neg(named)])])
        return Tri(conj([named, one_yes]), conj([disj([neg(named), one_no]), neg(blur)]))

    def cond(self, c, kind, over=None):
        parts = []
        for key, v in c.items():
            if key == "effects":
                mode, names = next(iter(v.items()))
                e = effects(names)
                yes = disj("e_" + x for x in e) if mode == "any" else conj(
                    neg("e_" + x) for x in EFFECTS if x not in e)
                parts.append(Tri(yes, neg(yes)))
            elif key == "statements":
                ops = {"gt": ">", "lt": "<", "eq": "="}
                yes = conj("(%s statements %d)" % (ops[o], n) for o, n in v.items())
                parts.append(Tri(yes, neg(yes)))
            elif key in ("during", "outside"):
                parts.append(self.calendar_key(key, listed(v)))
            elif key in ("relation", "resource"):
                parts.append(self.name_key(key, listed(v), kind))
            elif key == "rate":
                # Anything may have been counted, but one action alone may be over it.
                parts.append(Tri("(or %s (> statements %d))" % (over, v["over"]),
                                 "(and (not %s) (<= statements %d))" % (over, v["over"])))
            else:
                parts.append(self.attr(key, listed(v)))
        return Tri(conj(x.yes for x in parts), disj(x.no for x in parts))

    def allow(self):
        permits, forbids, needs = [], [], {}
        for i, r in enumerate(self.p["rules"]):
            kind = next(k for k in ("permit", "require", "forbid") if k in r)
            m = self.cond(r[kind], kind, "over_%d" % i)
            if kind == "permit":
                permits.append(m.yes)
            elif kind == "forbid":
                lift = {"never": "false", "exception": "(and lifted_%d (> time 0))" % i,
                        "breakglass": "(and breakglass (> time 0))"}[r["override"]]
                forbids.append(disj([m.no, lift]))
            else:
                for slot in r["approve"]:
                    needs.setdefault(slot["role"], []).append((neg(m.no), slot["count"]))
        return conj([disj(permits)] + forbids + [self.quorum(needs)])

    def quorum(self, needs):
        """Distinct people for all slots, by Hall: no set of roles asks for more than hold one of them."""
        out = []
        for role, asked in sorted(needs.items()):
            name = "need_" + role.replace("-", "_").replace(".", "_")
            value = "0"
            for match, count in sorted(asked, key=lambda x: x[1]):
                value = "(ite %s %d %s)" % (match, count, value)
            self.lines.append("(define-fun %s () Int %s)" % (name, value))
            out.append((role, name))
        total = "(+ 0 %s)" % " ".join(n for _, n in out)
        self.lines.append("(define-fun people () Int %s)" % total)
        rules = [disj(["(= people 0)", "(>= owner 0)"])]
        for k in range(1, len(out) + 1):
            for roles in itertools.combinations(out, k):
                able = " ".join("(ite (= owner %d) 0 1)" % i for i, n in enumerate(self.people)
                                if self.p["people"][n].get("keys") and
                                set(listed(self.p["people"][n]["roles"])) & {r for r, _ in roles})
                rules.append("(<= (+ 0 %s) (+ 0 %s))" % (" ".join(n for _, n in roles), able))
        return conj(rules)

    def theorem(self, t):
        self.lines.append("(assert %s)" % self.allow())
        self.lines.append("(assert %s)" % neg(self.cond(t["never"], "forbid").no))
        unless = t.get("unless", {})
        if unless.get("people"):
            self.lines.append("(assert (< people %d))" % unless["people"])
        if unless.get("people") or unless.get("breakglass"):
            self.lines.append("(assert (not breakglass))")
        return "\n".join(self.lines + ["(check-sat)"])


def z3_holds(policy, calendars, theorem, seconds=60):
    """True: no such action. False: there is one. An error: z3 says neither."""
    query = Model(policy, calendars).theorem(theorem)
    r = subprocess.run(["z3", "-in", "-T:%d" % seconds], input=query, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, encoding="ascii", timeout=seconds + 30, check=False)
    said = r.stdout.strip()
    if said not in ("sat", "unsat"):
        raise RuntimeError("z3 says %s to:\n%s" % (said, query))
    return said == "unsat"
