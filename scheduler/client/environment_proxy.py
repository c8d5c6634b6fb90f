"""The proxy of the environment for a URL, by the rules of Go (net/http: ProxyFromEnvironment).

HTTP_PROXY and HTTPS_PROXY, by the URL's scheme; NO_PROXY lists hosts, domains, addresses and ranges
of addresses that are reached directly, as localhost always is. Pure: the environment is an
argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from yarl import URL


def environment_proxy(url: URL, environment: Mapping[str, str]) -> URL | None:
    """Return the URL of the proxy, or None for a direct connection.

    Raises ValueError for a proxy that is not a URL.

    >>> environment_proxy(URL("http://e.svc:80"), {"HTTP_PROXY": "proxy:3128", "NO_PROXY": ".svc"})
    >>> environment_proxy(URL("http://e.com"), {"HTTP_PROXY": "proxy:3128", "NO_PROXY": ".svc"})
    URL('http://proxy:3128')
    """
    proxy = _value(environment, f"{url.scheme}_proxy")
    if not proxy or _direct(url, _value(environment, "no_proxy")):
        return None
    found = URL(proxy if "://" in proxy else f"http://{proxy}")
    if not found.host:
        raise ValueError(f"{url.scheme.upper()}_PROXY names no host")
    return found


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _direct(url: URL, exceptions: str) -> bool:
    host = (url.host or "").lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _matches(each.strip().lower(), host, address, url.port)
        for each in exceptions.split(",")
        if each.strip()
    )


def _matches(
    exception: str, host: str, address: IPv4Address | IPv6Address | None, port: int | None
) -> bool:
    if exception == "*":
        return True
    if "/" in exception:
        try:
            return address is not None and address in ip_network(exception, strict=False)
        except ValueError:
            return False
    name, wanted = _split(exception)
    if wanted and wanted != str(port):
        return False
    if address is not None or _address(name) is not None:
        return address is not None and address == _address(name)
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}")


def _split(text: str) -> tuple[str, str]:
    """Split an exception into host and port; an IPv6 address with a port is in brackets."""
    if _address(text) is not None:
        return text, ""
    name, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    return name.strip("[]"), port


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
