#!/usr/bin/python3
"""Every form of key and signature that an approval may carry, with a software authenticator for hardware's part.

ECDSA and Ed25519 come from ssh-keygen itself; what it accepts beside us is shown where we refuse more.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from authenticator import AT, ED, UP, UV, SecurityKey, WebAuthn, b64url, head, sha256  # noqa: E402
from harness import BUILD, Tap, Temp, must, run  # noqa: E402

t = Tap()
temp = Temp("keys")
TOOL = os.path.join(BUILD, "tool_sigcheck")
TEXT = b"cofferdam-approval v2\nDELETE FROM users\n"
NS = "cofferdam-approval"


def path(name, data=None):
    p = os.path.join(temp.path, name)
    if data is not None:
        with open(p, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
    return p


def check(sig, *lines, text=TEXT, ns=NS):
    return run([TOOL, "verify", ns, path("text", text), path("sig", sig), *lines]).stdout.strip()


def says(sig, want, name, *lines, **kw):
    t.has(check(sig, *lines, **kw), want, name)


def pub(name):
    with open(path(name + ".pub"), encoding="ascii") as f:
        return f.read().strip()


MISMATCH = "refused: signature does not match the text and the key"

# --- ssh-keygen's own ---------------------------------------------------------------------------------
for kind, bits in (("ed25519", ""), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521")):
    name = kind + bits
    must(["ssh-keygen", "-q", "-t", kind, *(["-b", bits] if bits else []), "-N", "", "-f", path(name)])
    path("text", TEXT)
    must(["ssh-keygen", "-q", "-Y", "sign", "-n", NS, "-f", path(name), path("text")])
    with open(path("text.sig"), encoding="ascii") as f:
        sig = f.read()
    os.unlink(path("text.sig"))
    says(sig, "key 0 ", "a signature of ssh-keygen by %s counts" % name, pub(name))
    says(sig, MISMATCH, "and not for another text (%s)" % name, pub(name), text=TEXT + b"x")
    says(sig, 'refused: namespace is "cofferdam-approval", must be "file"', "nor in another namespace (%s)" % name,
         pub(name), ns="file")
    fp = must(["ssh-keygen", "-l", "-f", path(name + ".pub")]).split()[1]
    out = run([TOOL, "key", pub(name)]).stdout.splitlines()
    t.eq(out, [fp, " ".join(pub(name).split()[:2])], "fingerprint and key line are as ssh-keygen has them (%s)" % name)
must(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path("rsa")])
t.has(run([TOOL, "key", pub("rsa")]).stdout, 'refused: key type must be one of ssh-ed25519,',
      "an RSA key is refused by name")

# --- hardware behind OpenSSH ----------------------------------------------------------------------------
for alg in ("ed25519", "p256"):
    sk = SecurityKey(alg)
    says(sk.sshsig(TEXT), "key 0 %s flags 1 counter 1" % run([TOOL, "key", sk.line()]).stdout.split()[0],
         "a touched security key counts, and its counter is told (%s)" % alg, sk.line())
    says(sk.sshsig(TEXT, flags=UP | UV), "flags 5 counter 2", "so does one that verified the person (%s)" % alg, sk.line())
    quiet = sk.sshsig(TEXT, flags=0)
    path("quiet.sig", quiet)
    path("text", TEXT)
    with open(path("text"), "rb") as f:
        accepted = run(["ssh-keygen", "-Y", "check-novalidate", "-n", NS, "-s", path("quiet.sig")], stdin=f)
    t.ok(accepted.returncode == 0, "OpenSSH takes a signature without touch (%s)" % alg, accepted.stderr)
    says(quiet, "refused: hardware key was not touched (flags 0x00, must have 0x01)", "we do not (%s)" % alg, sk.line())
    says(sk.sshsig(TEXT, flags=0, claim=UP), MISMATCH, "a touch that was not signed is none (%s)" % alg, sk.line())
    says(sk.sshsig(TEXT, flags=UP, claim=UP | UV), MISMATCH, "nor is a verification (%s)" % alg, sk.line())
    says(sk.sshsig(TEXT, hash_name="sha256"), 'refused: hash must be sha512, is "sha256"', "the weaker hash is refused (%s)" % alg)
    other = SecurityKey(alg, application="ssh:other")
    t.ok("key" not in check(other.sshsig(TEXT), sk.line()), "another key's signature is not this one's (%s)" % alg)
bad = SecurityKey("p256")
bad.pub = bad.pub[:-1] + bytes([bad.pub[-1] ^ 1])
t.has(run([TOOL, "key", bad.line()]).stdout, "refused: key is no point of nistp256", "a key that is not on its curve is refused")

# --- WebAuthn -------------------------------------------------------------------------------------------
for alg in ("p256", "ed25519"):
    w = WebAuthn(alg)
    ok = w.get(TEXT)
    says(json.dumps(ok), "key 0 %s flags 5 counter 1" % run([TOOL, "key", w.line()]).stdout.split()[0],
         "an assertion over the text counts (%s)" % alg, w.line())
    t.eq(run([TOOL, "key", w.line()]).stdout.splitlines()[1], w.line(), "its key line is put as it was read (%s)" % alg)
    says(json.dumps(ok), "refused: client data's challenge is not this text's", "and not over another (%s)" % alg,
         w.line(), text=TEXT + b"x")
    says(json.dumps(ok), "refused: person has no WebAuthn key in the policy", "nor by somebody without such a key (%s)" % alg,
         pub("ed25519"))
    says(json.dumps(ok), MISMATCH, "nor by another key of the same place (%s)" % alg, WebAuthn(alg).line())
    second = WebAuthn(alg)
    says(json.dumps(ok), "key 1 ", "which of a person's keys it was is found (%s)" % alg, second.line(), w.line())
    says(json.dumps(w.get(TEXT, flags=UP)), "refused: person was not there or not verified (flags 0x01, must have 0x05)",
         "presence without verification is refused (%s)" % alg, w.line())
    says(json.dumps(w.get(TEXT, flags=UV)), "(flags 0x04, must have 0x05)", "verification without presence too (%s)" % alg,
         w.line())
    says(json.dumps(w.get(TEXT, rp="example.org")), 'refused: relying party is not "approve.example.org"',
         "another relying party is refused (%s)" % alg, w.line())
    for what, change in (("its type", {"type": "webauthn.create"}), ("its origin", {"origin": "https://approve.example.org.evil"}),
                         ("the port of its origin", {"origin": "https://approve.example.org:8443"}),
                         ("a frame of another page", {"crossOrigin": True}), ("a frame, said as text", {"crossOrigin": "false"}),
                         ("another top page", {"topOrigin": "https://evil.example"}),
                         ("its challenge", {"challenge": b64url(sha256(b"x"))}),
                         ("a padded challenge", {"challenge": b64url(sha256(TEXT)) + "="})):
        t.has(check(json.dumps(w.get(TEXT, **change)), w.line()), "refused: ",
              "client data is refused for %s (%s)" % (what, alg))
    says(json.dumps(w.get(TEXT, crossOrigin=None, other_keys_can_be_added_here="x")), "key 0 ",
         "members that a browser adds are let be (%s)" % alg, w.line())
    twice = w.client("webauthn.get", sha256(TEXT))[:-1] + b',"origin":"https://approve.example.org"}'
    says(json.dumps(w.get(TEXT, client=twice)), "refused: client data is not as a browser writes it",
         "a member that stands twice is refused (%s)" % alg, w.line())
    says(json.dumps(w.get(TEXT, extra=b"\x00")), "refused: authenticator data has bytes left over",
         "bytes behind the authenticator data are refused (%s)" % alg, w.line())
    says(json.dumps(w.get(TEXT, flags=UP | UV | ED, extra=b"\xa1\x63abc\xf5")), "key 0 ",
         "extensions that the flag announces are let be (%s)" % alg, w.line())
    says(json.dumps(w.get(TEXT, flags=UP | UV | ED, extra=b"\xa1\x63abc\xf5\x00")), "left over", "one map of them (%s)" % alg, w.line())
    says(json.dumps(w.get(TEXT, flags=UP | UV | ED, extra=b"\x81" * 20 + b"\xf5")), "left over", "and not a deep one (%s)" % alg, w.line())
    for member in ok:
        for note, value in (("missing", None), ("padded", ok[member] + "="), ("a number", 7)):
            broken = {k: v for k, v in dict(ok, **{member: value}).items() if v is not None}
            says(json.dumps(broken), "must be base64url", "an assertion's %s may not be %s (%s)" % (member, note, alg), w.line())
    says(json.dumps(dict(ok, more="x")), "refused: assertion has a member that is not known",
         "an assertion has nothing else (%s)" % alg, w.line())
    flipped = 0
    raw = bytearray(json.dumps(ok).encode())
    for i in range(20, len(raw), 13):
        raw[i] ^= 1
        flipped += "key 0" in check(bytes(raw), w.line())
        raw[i] ^= 1
    t.eq(flipped, 0, "no flipped bit of it passes (%s)" % alg)

    # --- enrolment
    challenge = sha256(b"invitation")

    def enrol(obj, client, origin=w.origin, given=challenge):
        return run([TOOL, "enrol", path("att", obj), path("client", client), given.hex(), origin]).stdout
    t.eq(enrol(*w.create(challenge)).splitlines()[1:], [w.line()], "a new key and its credential are read (%s)" % alg)
    t.has(enrol(*w.create(challenge, fmt=b"packed")), w.line(), "whatever its attestation is called (%s)" % alg)
    for what, made, kw in (("another challenge", w.create(sha256(b"x")), {}), ("an assertion's type", w.create(challenge, type="webauthn.get"), {}),
                           ("another origin", w.create(challenge, origin="https://evil.example"), {}),
                           ("another relying party", w.create(challenge, rp="evil.example"), {}),
                           ("no verification", w.create(challenge, flags=UP | AT), {}),
                           ("no credential", w.create(challenge, flags=UP | UV), {}),
                           ("bytes behind its key", w.create(challenge, behind=b"\x00"), {}),
                           ("extensions that are not announced", w.create(challenge, behind=b"\xa0"), {}),
                           ("bytes behind the object", (w.create(challenge)[0] + b"\x00", w.create(challenge)[1]), {}),
                           ("a longer form of a number", (b"\xb8\x03" + w.create(challenge)[0][1:], w.create(challenge)[1]), {}),
                           ("an indefinite map", (b"\xbf" + w.create(challenge)[0][1:] + b"\xff", w.create(challenge)[1]), {})):
        t.has(enrol(*made, **kw), "refused: ", "an attestation is refused for %s (%s)" % (what, alg))
    t.has(enrol(*w.create(challenge, flags=UP | UV | AT | ED, behind=head(5, 0))), w.line(), "announced extensions are let be (%s)" % alg)

line = WebAuthn("p256").line()
for what, bad in (("cleartext", line.replace("https:", "http:", 1)), ("upper case", line.replace("approve", "Approve", 1)),
                  ("a path", line.replace(".org ", ".org/x ", 1)), ("a default port", line.replace(".org ", ".org:443 ", 1)),
                  ("no credential", line.replace(line.split()[1], "", 1)), ("a comment", line + " x"), ("padding", line + "=")):
    t.has(run([TOOL, "key", bad]).stdout, "refused: ", "a WebAuthn key line with %s is refused" % what)
t.has(run([TOOL, "key", WebAuthn("p256", origin="https://approve.example.org:8443").line()]).stdout, "SHA256:", "one with another port is not")
t.done()
