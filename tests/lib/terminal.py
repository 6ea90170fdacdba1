"""A program on a terminal of its own."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

from harness import wait_for


class Terminal:
    def __init__(self, argv, kind="xterm", rows=24, cols=80, **kw):
        self.main, self.sub = pty.openpty()
        self.size(rows, cols)
        self.before = termios.tcgetattr(self.sub)
        self.text = ""
        self.p = subprocess.Popen(argv, stdin=self.sub, stdout=self.sub, stderr=self.sub, env=dict(os.environ, TERM=kind), start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **kw)

    def size(self, rows, cols):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.main, text.encode())

    def take(self):
        while select.select([self.main], [], [], 0)[0]:
            self.text += os.read(self.main, 4096).decode("utf-8", "replace")
        return self.text

    def sees(self, want, seconds=30):
        return wait_for(lambda: want in self.take(), seconds)

    def end(self, seconds=60):
        """Its status, and whether the terminal is as it was."""
        wait_for(lambda: self.take() is not None and self.p.poll() is not None, seconds)
        status = self.p.wait(5)
        same = termios.tcgetattr(self.sub) == self.before
        os.close(self.main)
        os.close(self.sub)
        return status, same
