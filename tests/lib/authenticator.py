"""A software authenticator: security keys and WebAuthn as the specifications have them, in memory.

For tests alone. Real hardware cannot be asked here: what it would do is done by these few lines over Debian's
python3-cryptography, and each flag, counter and field can be made wrong.
"""
import base64
import hashlib
import json
import os
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

UP, UV, AT, ED = 1, 4, 64, 128
NAMESPACE = "cofferdam-approval"


def sha256(data):
    return hashlib.sha256(data).digest()


def lstr(data):
    if isinstance(data, str):
        data = data.encode()
    return struct.pack(">I", len(data)) + data


def mpint(n):
    return lstr(n.to_bytes(n.bit_length() // 8 + 1, "big"))


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """One secret: "ed25519" or "p256"; from a seed it is the same at each run."""

    def __init__(self, alg, seed=None):
        seed = sha256(seed) if seed is not None else os.urandom(32)
        self.alg = alg
        if alg == "ed25519":
            self.secret = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
            self.pub = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        else:
            self.secret = ec.derive_private_key(int.from_bytes(seed, "big") >> 1, ec.SECP256R1())
            self.pub = self.secret.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(self, data):
        """Ed25519 as it is, ECDSA as DER."""
        if self.alg == "ed25519":
            return self.secret.sign(data)
        return self.secret.sign(data, ec.ECDSA(hashes.SHA256()))

    def cose(self):
        if self.alg == "ed25519":
            return bytes.fromhex("a401010327200621") + b"\x58\x20" + self.pub
        return bytes.fromhex("a5010203262001215820") + self.pub[1:33] + bytes.fromhex("225820") + self.pub[33:]


class SecurityKey(Key):
    """What `ssh-keygen -t ed25519-sk` or `-t ecdsa-sk` speaks with (PROTOCOL.u2f)."""

    def __init__(self, alg, application="ssh:", seed=None):
        super().__init__(alg, seed)
        self.application = application
        self.counter = 0
        self.type = {"ed25519": "sk-ssh-ed25519@openssh.com", "p256": "sk-ecdsa-sha2-nistp256@openssh.com"}[alg]

    def blob(self):
        curve = b"" if self.alg == "ed25519" else lstr("nistp256")
        return lstr(self.type) + curve + lstr(self.pub) + lstr(self.application)

    def line(self, comment="software authenticator"):
        return "%s %s %s" % (self.type, base64.b64encode(self.blob()).decode(), comment)

    def sshsig(self, text, namespace=NAMESPACE, flags=UP, claim=None, hash_name="sha512"):
        """An armored SSHSIG. `claim`: flags that the blob says, while others were signed."""
        self.counter += 1
        data = b"SSHSIG" + lstr(namespace) + lstr(b"") + lstr(hash_name) + lstr(hashlib.new(hash_name, text).digest())
        signed = sha256(self.application.encode()) + bytes([flags]) + struct.pack(">I", self.counter) + sha256(data)
        raw = self.sign(signed)
        if self.alg != "ed25519":
            r, s = decode_dss_signature(raw)
            raw = mpint(r) + mpint(s)
        said = bytes([flags if claim is None else claim]) + struct.pack(">I", self.counter)
        blob = (b"SSHSIG" + struct.pack(">I", 1) + lstr(self.blob()) + lstr(namespace) + lstr(b"") + lstr(hash_name)
                + lstr(lstr(self.type) + lstr(raw) + said))
        text64 = base64.b64encode(blob).decode()
        lines = [text64[i:i + 70] for i in range(0, len(text64), 70)]
        return "\n".join(["-----BEGIN SSH SIGNATURE-----"] + lines + ["-----END SSH SIGNATURE-----", ""])


def head(major, n):
    return bytes([major << 5 | n]) if n < 24 else bytes([major << 5 | 24, n]) if n < 256 else \
        bytes([major << 5 | 25]) + struct.pack(">H", n)


class WebAuthn(Key):
    """A browser and an authenticator in one (WebAuthn level 2, 6 and 7)."""

    def __init__(self, alg, origin="https://approve.example.org", seed=None):
        super().__init__(alg, seed)
        self.origin = origin
        self.rp = origin.split("//")[1].split(":")[0]
        self.credential = sha256(b"credential" + self.pub)
        self.counter = 0

    def line(self):
        return "webauthn:%s %s %s" % (self.origin, b64url(self.credential), b64url(self.cose()))

    def client(self, kind, digest, **change):
        c = {"type": kind, "challenge": b64url(digest), "origin": self.origin, "crossOrigin": False}
        c.update(change)
        return json.dumps({k: v for k, v in c.items() if v is not None}, separators=(",", ":")).encode()

    def auth(self, flags, rp=None):
        return sha256((rp or self.rp).encode()) + bytes([flags]) + struct.pack(">I", self.counter)

    def get(self, text, flags=UP | UV, rp=None, extra=b"", client=None, **change):
        """What the page sends on: an assertion over the SHA-256 of `text`."""
        self.counter += 1
        auth = self.auth(flags, rp) + extra
        client = client or self.client("webauthn.get", sha256(text), **change)
        return {"authenticator_data": b64url(auth), "client_data": b64url(client),
                "signature": b64url(self.sign(auth + sha256(client)))}

    def create(self, challenge, flags=UP | UV | AT, rp=None, behind=b"", fmt=b"none", **change):
        """(attestation object, client data)"""
        auth = (self.auth(flags, rp) + bytes(16) + struct.pack(">H", len(self.credential)) + self.credential
                + self.cose() + behind)
        obj = (head(5, 3) + head(3, 3) + b"fmt" + head(3, len(fmt)) + fmt + head(3, 7) + b"attStmt" + head(5, 0)
               + head(3, 8) + b"authData" + head(2, len(auth)) + auth)
        return obj, self.client("webauthn.create", challenge, **change)
