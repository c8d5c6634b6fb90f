"""Probes `/livez` as the kubelet does, one connection each: `python prober.py PORT`.

Goes on until its standard input ends, and for 66 probes more; prints how many, and how many were
got the response `ok`.
"""

from __future__ import annotations

import select
import ssl
import sys
from contextlib import suppress
from http.client import HTTPException, HTTPSConnection


def probe(port: int, tls: ssl.SSLContext) -> bool:
    connection = HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)
    with suppress(OSError, HTTPException):
        connection.request("GET", "/livez")
        return connection.getresponse().read() == b"ok"
    return False


def main(port: int) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    results = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        results.append(probe(port, tls))
    results += [probe(port, tls) for _ in range(66)]
    print(len(results), sum(results))


if __name__ == "__main__":
    main(int(sys.argv[1]))
