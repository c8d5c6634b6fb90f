"""The local server of `kubestow ui` over real sockets, without a browser (tests/page has one)."""
