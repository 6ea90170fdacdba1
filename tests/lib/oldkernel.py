"""A kernel that has not everything: a seccomp program under which system calls fail, for preexec_fn."""
import ctypes
import struct

libc = ctypes.CDLL(None, use_errno=True)
NR, ARG0 = 0, 16  # in struct seccomp_data
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x50000
ENOSYS, EPERM = 38, 1


def absent(*calls, arg0=None, error=ENOSYS):
    """These calls fail; with arg0, of one call, only where its first argument is that."""
    if arg0 is not None:
        (nr,) = calls
        ins = [(LOAD, 0, 0, NR), (EQUAL, 0, 3, nr), (LOAD, 0, 0, ARG0), (EQUAL, 0, 1, arg0), (RETURN, 0, 0, ERRNO | error), (RETURN, 0, 0, ALLOW)]
    else:
        ins = [(LOAD, 0, 0, NR)] + [(EQUAL, len(calls) - i, 0, nr) for i, nr in enumerate(calls)] + [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | error)]
    code = b"".join(struct.pack("=HBBI", *i) for i in ins)

    def load():
        text = ctypes.create_string_buffer(code)
        prog = struct.pack("@HP", len(ins), ctypes.addressof(text))
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, ctypes.create_string_buffer(prog), 0, 0) != 0:
            raise OSError("prctl")
    return load
