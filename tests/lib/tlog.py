"""A log and its witnesses as C2SP has them, on their own: notes, trees, cosignatures. Written from c2sp.org/signed-note,
tlog-checkpoint, tlog-cosignature, tlog-witness and RFC 6962, of none of our code."""
import base64
import hashlib
import http.client
import ssl

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def sha(b):
    return hashlib.sha256(b).digest()


def b64(b):
    return base64.b64encode(b).decode()


def root(leaves):
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha(b"\1" + root(leaves[:k]) + root(leaves[k:]))


def consistency(m, leaves, whole=True):
    """RFC 6962 2.1.2, PROOF(m, D[n])."""
    n = len(leaves)
    if m == n:
        return [] if whole else [root(leaves)]
    k = 1
    while 2 * k < n:
        k *= 2
    if m <= k:
        return consistency(m, leaves[:k], whole) + [root(leaves[k:])]
    return consistency(m - k, leaves[k:], False) + [root(leaves[:k])]


class Signer:
    def __init__(self, name, seed, kind=1):
        self.name, self.key = name, ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.pub = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = sha(name.encode() + b"\n" + bytes([kind]) + self.pub)[:4]
        self.vkey = "%s+%s+%s" % (name, self.id.hex(), b64(bytes([kind]) + self.pub))

    def line(self, text):
        return "\u2014 %s %s\n" % (self.name, b64(self.id + self.key.sign(text.encode())))

    def cosign(self, text, time):
        sig = self.key.sign(("cosignature/v1\ntime %d\n" % time + text).encode())
        return "\u2014 %s %s\n" % (self.name, b64(self.id + time.to_bytes(8, "big") + sig))


class Log:
    """Leaves, and signed heads over any prefix."""

    def __init__(self, origin, seed, leaves=0, salt=b""):
        self.signer, self.origin = Signer(origin, seed), origin
        self.leaves = []
        self.grow(leaves, salt)

    def grow(self, n, salt=b""):
        for _ in range(n):
            self.leaves.append(sha(b"\0" + salt + str(len(self.leaves)).encode()))

    def text(self, size):
        return "%s\n%d\n%s\n" % (self.origin, size, b64(root(self.leaves[:size])))

    def note(self, size, signer=None):
        text = self.text(size)
        return text + "\n" + (signer or self.signer).line(text)

    def request(self, old, size, **kw):
        proof = consistency(old, self.leaves[:size]) if 0 < old <= size else []
        return "old %d\n" % old + "".join(b64(h) + "\n" for h in proof) + "\n" + self.note(size, **kw)


def cosigned(vkey, line, text):
    """The time that a witness says, or None: it is not this witness' line, or does not hold."""
    name, ident, key = vkey.split("+", 2)
    pub = base64.b64decode(key)[1:]
    dash, who, blob = line.split(" ")
    blob = base64.b64decode(blob, validate=True)
    if dash != "\u2014" or who != name or blob[:4].hex() != ident or len(blob) != 76:
        return None
    time = int.from_bytes(blob[4:12], "big")
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(pub).verify(
            blob[12:], ("cosignature/v1\ntime %d\n" % time + text).encode())
    except InvalidSignature:
        return None
    return time


def submit(port, body, path="/add-checkpoint", method="POST", ca=None):
    """Status, content type, content."""
    if ca:
        c = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=ssl.create_default_context(cafile=ca))
    else:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request(method, path, body if isinstance(body, bytes) else body.encode())
    r = c.getresponse()
    out = r.status, r.getheader("Content-Type"), r.read().decode()
    c.close()
    return out
