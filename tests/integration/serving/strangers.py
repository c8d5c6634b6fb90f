"""Opens idle connections to a port from HOST: `python strangers.py PORT COUNT HOST`.

Prints a line when all are open, and keeps what is left of them until its standard input ends.
"""

from __future__ import annotations

import resource
import socket
import sys


def main(port: int, count: int, host: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept = [socket.create_connection(("127.0.0.1", port), 30, (host, 0)) for _ in range(count)]
    print(len(kept), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
