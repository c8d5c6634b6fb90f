"""URLs, IP addresses and CIDRs (`library/urls.go`, `library/ip.go`, `library/cidr.go`)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from scheduler.cel.declarations import (
    OBJECT_BYTES,
    STRING_FACTOR,
    Library,
    covered,
    first_traversal,
    traversal,
)
from scheduler.cel.errors import WORK_LIMIT_EXCEEDED, EvaluationCancelledError, EvaluationError
from scheduler.cel.metering import Meter, pieces
from scheduler.cel.types import BOOL, INT, STRING, Type, list_of, map_of
from scheduler.cel.values import Opaque

URL: Final = Type("kubernetes.URL")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class Url(Opaque):
    """A URL with a scheme, or a path from the root."""

    type_name: ClassVar[str] = "kubernetes.URL"
    parts: SplitResult


@dataclass(frozen=True, slots=True)
class Ip(Opaque):
    """An IP address."""

    type_name: ClassVar[str] = "net.IP"
    address: _Address

    @property
    def size(self) -> int:  # type: ignore[override]
        """Bytes of the address."""
        return len(self.address.packed)


@dataclass(frozen=True, slots=True)
class Cidr(Opaque):
    """An address with the length of its network's prefix."""

    type_name: ClassVar[str] = "net.CIDR"
    interface: _Network

    @property
    def size(self) -> int:  # type: ignore[override]
        """Bytes that the prefix takes, as upstream counts them."""
        return -(-self.interface.network.prefixlen // 8)


_MAX_URL: Final = 10_000
"""Characters of a URL: `urlsplit` keeps the last 128."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def url(text: str) -> Url:
    """Parse an absolute URL or path; raises `EvaluationError`."""
    if len(text) > _MAX_URL:
        raise EvaluationCancelledError(WORK_LIMIT_EXCEEDED)
    if not _CONTROL.search(text):
        try:
            parts = urlsplit(text, allow_fragments=False)
            # Reading the port checks it; a host must not hold blanks.
            valid = (parts.port or 0) >= 0 and " " not in parts.netloc
        except ValueError:
            valid = False
        if valid and (parts.scheme or text.startswith("/")):
            return Url(parts)
    raise EvaluationError(f"URL parse error during conversion from string: {text[:80]!r}")


_MAX_ADDRESS: Final = 64
"""Characters of an address or network; the longest that is valid has 49."""


def ip(text: str) -> Ip:
    """Parse an IP address without zone; raises `EvaluationError`."""
    try:
        if len(text) > _MAX_ADDRESS:
            raise ValueError
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or "%" in text:
        raise EvaluationError(f"IP Address {text[:80]!r} parse error during conversion from string")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {text[:80]!r} is not allowed")
    return Ip(address)


def cidr(text: str) -> Cidr:
    """Parse an address with a prefix length; raises `EvaluationError`."""
    _, slash, prefix = text[: _MAX_ADDRESS + 1].partition("/")
    try:
        if (
            len(text) > _MAX_ADDRESS
            or not slash
            or not prefix.isascii()
            or not prefix.isdigit()
            or "%" in text
        ):
            raise ValueError
        if len(prefix) > 1 and prefix[0] == "0":
            raise ValueError
        interface = ipaddress.ip_interface(text)
    except ValueError:
        raise EvaluationError(
            f"network address parse error during conversion from string: {text[:80]!r}"
        ) from None
    mapped = interface.ip.ipv4_mapped if isinstance(interface.ip, ipaddress.IPv6Address) else None
    if mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {text[:80]!r} is not allowed")
    return Cidr(interface)


def _succeeds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return check


def is_canonical(text: str) -> bool:
    """Whether an address is written as it is printed; raises if it is none."""
    return str(ip(text).address) == text


def contains_ip(network: Cidr, address: Any) -> bool:
    """Whether an address, perhaps as text, is in a network."""
    return (ip(address) if type(address) is str else address).address in network.interface.network


def contains_cidr(network: Cidr, other: Any) -> bool:
    """Whether a network, perhaps as text, is within another."""
    inner = (cidr(other) if type(other) is str else other).interface.network
    outer = network.interface.network
    if inner.version != outer.version:
        return False
    return bool(inner.network_address in outer and inner.prefixlen >= outer.prefixlen)


def masked(network: Cidr) -> Cidr:
    """Return the network with the address that has no bits behind the prefix."""
    return Cidr(ipaddress.ip_interface(str(network.interface.network)))


def is_global_unicast(value: Ip) -> bool:
    """Whether an address is none of Go's special ones (`netip.Addr.IsGlobalUnicast`)."""
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def is_link_local_multicast(value: Ip) -> bool:
    """Whether an address is a multicast address of the link."""
    link = "224.0.0.0/24" if value.address.version == 4 else "ff02::/16"
    return value.address in ipaddress.ip_network(link)


def _query(meter: Meter, value: Url) -> dict[str, list[str]]:
    length = len(value.parts.query)
    meter.spend(4 * length)
    meter.hold(OBJECT_BYTES + 150 * length)
    return parse_qs(value.parts.query, keep_blank_values=True)


def _hostname(value: Url) -> str:
    host = value.parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1 : host.find("]")]
    return host.partition(":")[0]


def _port(value: Url) -> str:
    host = value.parts.netloc.rpartition("@")[2]
    return host.rpartition("]")[2].partition(":")[2]


def _comparison(arguments: Sequence[Any], result: Any) -> int:
    network, other = arguments
    cost = traversal(network, 2 * STRING_FACTOR)
    return cost + (traversal(other) if type(other) is str else 0)


def _network_comparison(arguments: Sequence[Any], result: Any) -> int:
    return _comparison(arguments, result) + traversal(arguments[0]) + 1


def _parsing(text: str) -> int:
    return pieces(len(text), 2)


def _address(*arguments: Any) -> int:
    """Return the work of a function of addresses: modules in Python parse and print them."""
    return 80


def _twice(arguments: Sequence[Any], result: Any) -> int:
    return traversal(arguments[0], 2 * STRING_FACTOR)


def _declare_urls(library: Library) -> None:
    library.function("url", (STRING,), URL, url, first_traversal, _parsing)
    library.function("isURL", (STRING,), BOOL, _succeeds(url), None, _parsing)
    texts: dict[str, Callable[[Url], str]] = {
        "getScheme": lambda value: value.parts.scheme,
        "getHost": lambda value: value.parts.netloc.rpartition("@")[2],
        "getHostname": _hostname,
        "getPort": _port,
        "getEscapedPath": lambda value: value.parts.path,
    }
    for name, body in texts.items():
        library.method(name, (URL,), STRING, body, work=covered)
    query = map_of(STRING, list_of(STRING))
    library.method("getQuery", (URL,), query, _query, is_metered=True)


def _library() -> Library:
    library = Library()
    _declare_urls(library)
    library.function("ip", (STRING,), IP, ip, first_traversal, _address)
    library.function("isIP", (STRING,), BOOL, _succeeds(ip), first_traversal, _address)
    library.function("ip.isCanonical", (STRING,), BOOL, is_canonical, _twice, _address)
    library.function("cidr", (STRING,), CIDR, cidr, first_traversal, _address)
    library.function("isCIDR", (STRING,), BOOL, _succeeds(cidr), first_traversal, _address)
    library.function("string", (IP,), STRING, lambda value: str(value.address), work=_address)
    library.function("string", (CIDR,), STRING, lambda value: str(value.interface), work=_address)
    facts: dict[str, Callable[[Ip], bool]] = {
        "isUnspecified": lambda value: value.address.is_unspecified,
        "isLoopback": lambda value: value.address.is_loopback,
        "isLinkLocalMulticast": is_link_local_multicast,
        "isLinkLocalUnicast": lambda value: value.address.is_link_local,
        "isGlobalUnicast": is_global_unicast,
    }
    library.method("family", (IP,), INT, lambda value: value.address.version, work=_address)
    for name, body in facts.items():
        library.method(name, (IP,), BOOL, body, work=_address)
    library.method("ip", (CIDR,), IP, lambda value: Ip(value.interface.ip))
    library.method("masked", (CIDR,), CIDR, masked, work=_address)
    library.method("prefixLength", (CIDR,), INT, lambda value: value.interface.network.prefixlen)
    contains = partial(library.method, work=_address)
    for each in (IP, STRING):
        contains("containsIP", (CIDR, each), BOOL, contains_ip, _comparison)
    for each in (CIDR, STRING):
        contains("containsCIDR", (CIDR, each), BOOL, contains_cidr, _network_comparison)
    return library


FUNCTIONS: Final = _library().functions
