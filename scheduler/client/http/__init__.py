"""An HTTP/1.1 client for the API server, without features that it does not need.

A pod costs two requests and a few watch events, which took most of its CPU time with a general
client. This one sends prepared bytes, reads responses by length or chunk, and keeps connections:

- `request`: the bytes of a request; `response`: a whole response.
- `parser`: turns bytes into responses, by llhttp, with limits; pure, no sockets.
- `connection`: one socket, one exchange at a time; `stream`: the body of a response without end.
- `pool`: connections to one server, timeouts, error mapping; `tls`: contexts, session resumption.

No redirects, compression, cookies, proxies or HTTP/2. `scheduler.client.proxy_transport` uses
aiohttp where a proxy is configured. docs/decisions/0003-own-client.md gives the reasons.
"""
