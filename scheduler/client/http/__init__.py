"""HTTP/1.1 towards the API server, without more than it needs.

A pod costs two requests and a few watch events, which with a general client were most of its CPU.
This one sends bytes that are ready, reads answers by length or chunk, and keeps connections:

- `request`: the bytes that are sent; `answer`: what came back.
- `parsing`: bytes to answers, by llhttp, with limits; pure, no sockets.
- `connection`: one socket, one exchange at a time; `stream`: the body of an answer without end.
- `pool`: connections to one server, time limits, errors by name; `tls`: handshakes resumed.

No redirects, compression, cookies, proxies or HTTP/2. Where a proxy is configured, `proxied` has
aiohttp do it.
"""

from scheduler.client.http.pool import Address, ConnectionPool
from scheduler.client.http.response import Response
from scheduler.client.http.stream import BodyStream

__all__ = ["Address", "BodyStream", "ConnectionPool", "Response"]
