"""Prepare this process, then become the program: ``launch.py PARENT ADDRESS_SPACE PROGRAM ARG...``.

Runs between fork and exec of a foreign program, as a script of its own, because Python code between fork and exec in a
process with threads can deadlock. PARENT is the pid that the program must not outlive. ADDRESS_SPACE is in bytes,
0 for no limit. Standard library only; nothing of the harness is imported.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


def main(argv: list[str]) -> None:
    """Set the limits and exec. Says why on stderr, and exits with 127, where the program cannot be started."""
    parent, address_space, program = int(argv[0]), int(argv[1]), argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if address_space:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above was in force
        os._exit(NOT_STARTED)
    # Python ignores SIGPIPE, and an ignored signal survives exec; the program must start with the default.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell is what we want
    except OSError as error:
        sys.stderr.write(f"cannot start {program[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
