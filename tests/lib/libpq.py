"""libpq through ctypes: the real client library, both protocols, no further package."""
import ctypes as C
import re

_l = C.CDLL("libpq.so.5")
_l.PQconnectdb.restype = C.c_void_p
_l.PQexec.restype = _l.PQexecParams.restype = _l.PQprepare.restype = _l.PQexecPrepared.restype = C.c_void_p
_l.PQgetResult.restype = _l.PQdescribePrepared.restype = C.c_void_p
for _f in ("PQerrorMessage", "PQresultErrorField", "PQgetvalue", "PQcmdStatus", "PQcmdTuples", "PQparameterStatus"):
    getattr(_l, _f).restype = C.c_char_p
_l.PQconsumeInput.argtypes = [C.c_void_p]

IDLE, ACTIVE, INTRANS, INERROR, UNKNOWN = range(5)
_TUPLES_OK, _COMMAND_OK, _EMPTY, _COPY_OUT, _PIPELINE_SYNC, _PIPELINE_ABORTED = 2, 1, 0, 3, 10, 11


class Result:
    def __init__(self, r):
        v = C.c_void_p(r)
        self.status = _l.PQresultStatus(v)
        field = lambda c: (_l.PQresultErrorField(v, ord(c)) or b"").decode("utf-8", "replace")
        self.sqlstate, self.message = field("C"), field("M")
        self.detail, self.hint = field("D"), field("H")
        self.tag = (_l.PQcmdStatus(v) or b"").decode()
        self.ok = self.status in (_TUPLES_OK, _COMMAND_OK, _EMPTY)
        self.rows = [[_l.PQgetvalue(v, i, j).decode("utf-8", "replace") for j in range(_l.PQnfields(v))]
                     for i in range(_l.PQntuples(v))] if self.status == _TUPLES_OK else []
        _l.PQclear(v)

    def __repr__(self):
        return "<%s %s %s %s>" % (self.tag or self.status, self.sqlstate, self.message, self.rows[:3])


def _args(params):
    n = len(params)
    a = (C.c_char_p * n)(*[None if p is None else str(p).encode() for p in params])
    return n, a


class Conn:
    def __init__(self, dsn):
        self.c = C.c_void_p(_l.PQconnectdb(dsn.encode()))
        self.up = _l.PQstatus(self.c) == 0
        self.error = (_l.PQerrorMessage(self.c) or b"").decode("utf-8", "replace")

    def query(self, sql):
        return Result(_l.PQexec(self.c, sql.encode() if isinstance(sql, str) else sql))

    def params(self, sql, *params):
        n, a = _args(params)
        return Result(_l.PQexecParams(self.c, sql.encode(), n, None, a, None, None, 0))

    def prepare(self, name, sql):
        return Result(_l.PQprepare(self.c, name.encode(), sql.encode(), 0, None))

    def execute(self, name, *params):
        n, a = _args(params)
        return Result(_l.PQexecPrepared(self.c, name.encode(), n, a, None, None, 0))

    def pipeline(self, statements):
        """[(sql, params)...] in one pipeline with one Sync; a result for each."""
        assert _l.PQenterPipelineMode(self.c) == 1
        for sql, params in statements:
            n, a = _args(params)
            assert _l.PQsendQueryParams(self.c, sql.encode(), n, None, a, None, None, 0) == 1
        assert _l.PQpipelineSync(self.c) == 1
        out = []
        while True:
            r = _l.PQgetResult(self.c)
            if not r:
                continue
            res = Result(r)
            if res.status == _PIPELINE_SYNC:
                break
            out.append(res)
        assert _l.PQexitPipelineMode(self.c) == 1
        return out

    @property
    def txn(self):
        return _l.PQtransactionStatus(self.c)

    @property
    def said(self):
        """libpq's own words of the last error: what the server said before it closed stands there, too."""
        return (_l.PQerrorMessage(self.c) or b"").decode("utf-8", "replace")

    @property
    def alive(self):
        return _l.PQstatus(self.c) == 0

    def close(self):
        if self.c:
            _l.PQfinish(self.c)
            self.c = None


def request_of(r):
    """The id of the request that a refusal names; None: none."""
    m = re.search(r"request ([a-z2-7]{26})", r.hint or "")
    return m.group(1) if m else None
