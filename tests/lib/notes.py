"""Signed notes in the hands of a test: what a thief of a log's key could sign. Signs with libsodium, shares no line with the
writer."""
import base64
import ctypes
import hashlib

so = ctypes.CDLL("libsodium.so.23")


class Key:
    def __init__(self, seed, name=b"test.example/log"):
        pub, self.sk = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        so.crypto_sign_seed_keypair(pub, self.sk, seed)
        self.name, blob = name, b"\1" + pub.raw
        self.id = hashlib.sha256(name + b"\n" + blob).digest()[:4]
        self.vkey = name + b"+" + self.id.hex().encode() + b"+" + base64.b64encode(blob)

    def line(self, text):
        sig = ctypes.create_string_buffer(64)
        so.crypto_sign_detached(sig, None, text, ctypes.c_ulonglong(len(text)), self.sk)
        return "— ".encode() + self.name + b" " + base64.b64encode(self.id + sig.raw) + b"\n"

    def note(self, text, *others):
        return text + b"\n" + b"".join(k.line(text) for k in (self, *others))


def handover(old, new, size, root, last=None, reason=None, first=b"cofferdam-log-key/1"):
    text = b"%s\n%s\n%d\n%s\n%d\n%s\n%s\n" % (first, old.name, size, base64.b64encode(root), size if last is None else last, old.vkey, new.vkey)
    return text + (reason + b"\n" if reason else b"")
