"""The proxy of the environment: the cases of Go's golang.org/x/net/http/httpproxy."""

from __future__ import annotations

import pytest
from yarl import URL

from scheduler.client.environment_proxy import environment_proxy


@pytest.mark.parametrize(
    ("url", "exceptions", "direct"),
    [
        ("http://e.example.com", "", False),
        ("http://localhost:80", "", True),
        ("http://127.0.0.1", "", True),
        ("http://[::1]:80", "", True),
        ("http://e.example.com", "*", True),
        ("http://e.example.com", "example.com", True),
        ("http://example.com", "example.com", True),
        ("http://notexample.com", "example.com", False),
        ("http://example.com", ".example.com", False),
        ("http://e.example.com", ".example.com", True),
        ("http://e.example.com", "*.example.com", True),
        ("http://E.Example.com", " other.com , EXAMPLE.com", True),
        ("http://e.ns.svc.cluster.local:8888", ".svc,.cluster.local", True),
        ("http://e.example.com:8080", "example.com:8080", True),
        ("http://e.example.com", "example.com:8080", False),
        ("http://10.1.2.3", "10.0.0.0/8", True),
        ("http://11.1.2.3", "10.0.0.0/8", False),
        ("http://e.example.com", "10.0.0.0/8", False),
        ("http://10.1.2.3", "not/a/range", False),
        ("http://10.1.2.3", "10.1.2.3", True),
        ("http://10.1.2.3:81", "10.1.2.3:80", False),
        ("http://[fd00::1]", "fd00::/8", True),
        ("http://[fd00::1]:81", "[fd00::1]:81", True),
        ("http://10.1.2.3", ".3", False),
    ],
)
def test_what_is_reached_directly(url: str, exceptions: str, direct: bool) -> None:
    found = environment_proxy(URL(url), {"HTTP_PROXY": "http://p:1", "NO_PROXY": exceptions})
    assert (found is None) == direct


def test_the_scheme_selects_the_variable_in_either_case() -> None:
    environment = {"http_proxy": "plain:1", "HTTPS_PROXY": "https://user:word@secure:2"}
    assert environment_proxy(URL("http://e"), environment) == URL("http://plain:1")
    assert environment_proxy(URL("https://e"), environment) == URL("https://user:word@secure:2")
    assert environment_proxy(URL("https://e"), {"http_proxy": "plain:1"}) is None


def test_a_proxy_without_a_host_is_an_error() -> None:
    with pytest.raises(ValueError, match="HTTP_PROXY names no host"):
        environment_proxy(URL("http://e"), {"HTTP_PROXY": "http://"})
