"""HTTP/1.1 towards the API server, without more than it needs.

A pod costs two requests and a few watch events, which with a general client were most of its CPU.
This one sends prepared bytes, reads responses by length or chunk, and keeps connections:

- `request`: the bytes of a request; `response`: a whole response.
- `parser`: bytes to responses, by llhttp, with limits; pure, no sockets.
- `connection`: one socket, one exchange at a time; `stream`: the body of a response without end.
- `pool`: connections to one server, timeouts, error mapping; `tls`: contexts, session resumption.

No redirects, compression, cookies, proxies or HTTP/2. `scheduler.client.proxy_transport` uses
aiohttp where a proxy is configured. docs/decisions/0003-own-client.md gives the reasons.
"""
