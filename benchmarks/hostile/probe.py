"""The longest wait for a scheduler's /livez, which responds only when its event loop runs.

    python -m benchmarks.hostile.probe PORT

A process of its own, so that what else the benchmark does delays no probe. It asks fifty times a
second over one kept connection; each line on standard input is answered with the longest wait since
the last one, in seconds.
"""

from __future__ import annotations

import http.client
import select
import ssl
import subprocess
import sys
import time
from typing import Final, Self

from devtools.control_plane.ports import LOOPBACK

PERIOD_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 300.0


class Probe:
    """The probing process of one scheduler."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hostile.probe", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.longest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def longest(self) -> float:
        """Return the longest wait in seconds since the last call, including a request in flight."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline() or "nan")


def main(port: int) -> None:
    """Probe until standard input ends."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(
        LOOPBACK, port, context=context, timeout=TIMEOUT_SECONDS
    )
    longest = 0.0
    while True:
        started = time.monotonic()
        try:
            connection.request("GET", "/livez")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            # The server ends a connection after so many requests, or has ended itself.
            connection.close()
        longest = max(longest, time.monotonic() - started)
        if select.select([sys.stdin], [], [], PERIOD_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]))
