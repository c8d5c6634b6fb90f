"""The serving certificate: given as files, kept in a folder, or made in memory; renewed in use.

New connections use the SSL context of `ServingTls`: a renewed pair is loaded into it before the
next connection is accepted, and other authorities of client certificates make a new context. No
connection is interrupted and no file is watched. `client_authorities` finds those authorities.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import structlog

from scheduler.client.clock import Clock, SystemClock
from scheduler.client.http.memory_file import memory_file
from scheduler.files import read_file
from scheduler.service.options import ServingOptions

_log = structlog.get_logger(__name__)

PAIR_NAME: Final = "kube-scheduler"
"""Base name of the files in `--cert-dir`, upstream's."""

VALID_FOR: Final = timedelta(days=365)
RENEW_AFTER_SECONDS: Final = VALID_FOR.total_seconds() / 2
CHECK_SECONDS: Final = 10.0
"""How often files are looked at, at most."""
_MAKING_SECONDS: Final = 60

_MINIMUM_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    # Accepted and raised: Python no longer speaks what came before.
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_CIPHER_SUITES: Final = {
    f"TLS_{iana}": openssl
    for iana, openssl in {
        "ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
        "ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
        "ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
        "ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
        "ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
        "ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
        "RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
        "RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
        "RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    }.items()
}
"""TLS 1.2 suites of Go that OpenSSL offers. Those of TLS 1.3 cannot be chosen, here or in Go."""
_BROKEN_SUITES: Final = frozenset(
    {
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
"""Suites that Go still has and OpenSSL does not, left out of lists such as OpenShift's profile
Old."""
_TLS13_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)


class ServingError(Exception):
    """The endpoints cannot be served, for the reason in the message."""


class CertificateSource(Protocol):
    """Source of certificate and key."""

    def stamp(self) -> Hashable:
        """Return a value that changes when `load` would load another pair. Raises OSError."""
        ...

    def load(self, context: ssl.SSLContext) -> bytes:
        """Put the pair into `context`; return the certificate as PEM.

        Raises OSError, of which ssl.SSLError is one.
        """
        ...


@dataclass(frozen=True, slots=True)
class FilePair:
    """Two PEM files, which another process may replace."""

    certificate: Path
    key: Path

    def stamp(self) -> Hashable:
        """Return times, sizes and inodes: a mounted Secret is replaced by switching a link."""
        found = [path.stat() for path in (self.certificate, self.key)]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    def load(self, context: ssl.SSLContext) -> bytes:
        """See `CertificateSource`."""
        # First, since OpenSSL would read a pipe or a device for ever.
        certificate, _ = (read_file(each) for each in (self.certificate, self.key))
        # With a password an encrypted key is an error instead of a prompt on the terminal.
        context.load_cert_chain(self.certificate, self.key, password="")
        # If it is replaced between the two reads, its stamp differs at the next look.
        return certificate


class SelfSigned:
    """A pair for `localhost`, new at the start and after half its life."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The pair of the present half-life, kept for another context.
        self._made: tuple[Hashable, bytes, bytes] | None = None

    def stamp(self) -> Hashable:
        """Return the number of the half-life."""
        return self._clock.monotonic() // RENEW_AFTER_SECONDS

    def load(self, context: ssl.SSLContext) -> bytes:
        """Load the pair of this half-life, which is never written to a disk."""
        stamp = self.stamp()
        if self._made is None or self._made[0] != stamp:
            self._made = (stamp, *_new_pair(self._clock))
        _, certificate, key = self._made
        with memory_file(certificate + key) as path:
            context.load_cert_chain(path)
        return certificate


class ServingTls:
    """The SSL context of the server, kept up to date."""

    def __init__(
        self,
        options: ServingOptions,
        clock: Clock | None = None,
        *,
        loaded: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Build the context, which asks for no client certificate, and load the first pair.

        `loaded` gets the SHA-256 hash of each certificate (DER, hexadecimal) when it is in use.

        Raises:
            ServingError: a setting or file is unusable.
        """
        clock = clock or SystemClock()
        self._clock = clock
        self._options = options
        try:
            self._source = _source(options, clock)
            self._stamp = self._source.stamp()
            #: Of new connections; another object once the authorities changed.
            self.context = self._make_context()
            certificate = self._source.load(self.context)
        except OSError as error:
            raise ServingError(f"serving certificate: {error}") from error
        self._next_check = clock.monotonic() + CHECK_SECONDS
        self._loaded = loaded
        loaded(certificate_sha256(certificate))

    def refresh(self) -> None:
        """Load a changed pair. Called for each connection; looks at files every ten seconds.

        An unusable pair (half written, say) is logged, and the current one stays.
        """
        now = self._clock.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_SECONDS
        try:
            stamp = self._source.stamp()
            if stamp == self._stamp:
                return
            # In two steps: a failed load would leave the context with a certificate and no key.
            self._source.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            certificate = self._source.load(self.context)
            self._stamp = stamp
            self._loaded(certificate_sha256(certificate))
        except OSError as error:
            _log.warning("cannot load the new serving certificate", error=str(error))
        else:
            _log.info("serving certificate loaded")

    def trust_clients(self, authorities: str) -> None:
        """Ask new connections for a certificate that these authorities (PEM) signed.

        Without authorities none is asked for. A connection whose certificate is not valid fails in
        its handshake; one without a certificate does not.

        Raises:
            OSError: they are no certificates, or the serving pair cannot be read now. Nothing has
                changed then. ssl.SSLError is one.
        """
        context = self._make_context()
        if authorities:
            # Comments between certificates may be in any language; ssl wants ASCII.
            plain = authorities.encode("ascii", "ignore").decode()
            if not plain:
                # For which ssl raises ValueError.
                raise ssl.SSLError("they contain no certificate")
            context.load_verify_locations(cadata=plain)
            context.verify_mode = ssl.CERT_OPTIONAL
            # As Go: the text may have the authority that issued them without the one above it.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        certificate = self._source.load(context)
        self.context = context
        self._loaded(certificate_sha256(certificate))

    def _make_context(self) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = minimum_version(options.tls_min_version)
        suites = cipher_string(options.tls_cipher_suites)
        if suites:
            context.set_ciphers(suites)
        context.set_alpn_protocols(["http/1.1"])
        return context


def certificate_sha256(pem: bytes) -> str:
    """Return the hash of the first certificate, which is the server's own, in a PEM file.

    Empty for one in another armour (`BEGIN TRUSTED CERTIFICATE`), which OpenSSL reads as well.
    """
    begin = pem.find(ssl.PEM_HEADER.encode())
    end = pem.find(ssl.PEM_FOOTER.encode(), begin) + len(ssl.PEM_FOOTER)
    if begin < 0 or end < begin:
        return ""
    return sha256(ssl.PEM_cert_to_DER_cert(pem[begin:end].decode("ascii"))).hexdigest()


def minimum_version(name: str) -> ssl.TLSVersion:
    """Return the lowest TLS version for a value of `--tls-min-version`."""
    try:
        return _MINIMUM_VERSIONS[name]
    except KeyError:
        known = ", ".join(each for each in _MINIMUM_VERSIONS if each)
        raise ServingError(f'unknown tls version "{name}"; there are {known}') from None


def cipher_string(suites: tuple[str, ...]) -> str:
    """Return OpenSSL's list for values of `--tls-cipher-suites`; empty for its own choice."""
    unknown = set(suites) - _CIPHER_SUITES.keys() - _TLS13_SUITES - _BROKEN_SUITES
    offered = [each for each in suites if each not in _BROKEN_SUITES]
    if unknown or (suites and not offered):
        raise ServingError(
            f"cipher suite {', '.join(sorted(unknown or suites))} not supported or doesn't exist; "
            f"there are {', '.join(sorted([*_CIPHER_SUITES, *_TLS13_SUITES]))}"
        )
    if len(offered) < len(suites):
        left_out = sorted(set(suites) - set(offered))
        _log.warning("OpenSSL has no such cipher suites, left out", suites=left_out)
    return ":".join(
        dict.fromkeys(_CIPHER_SUITES[each] for each in offered if each in _CIPHER_SUITES)
    )


def _source(options: ServingOptions, clock: Clock) -> CertificateSource:
    files = (options.tls_cert_file, options.tls_private_key_file)
    if all(files):
        return FilePair(Path(files[0]), Path(files[1]))
    if any(files):
        raise ServingError("--tls-cert-file and --tls-private-key-file must be given together")
    if not options.cert_dir:
        return SelfSigned(clock)
    folder = Path(options.cert_dir)
    pair = FilePair(folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key")
    if pair.certificate.exists() and pair.key.exists():
        return pair
    folder.mkdir(parents=True, exist_ok=True)
    return _write_pair(folder, *_new_pair(clock))


def _new_pair(clock: Clock) -> tuple[bytes, bytes]:
    """Return certificate and key."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    if "cryptography" not in sys.modules:
        # It would keep 10 MiB of this process for two calls a year.
        try:
            return _pair_of_a_child(now)
        except (OSError, subprocess.SubprocessError) as error:
            # An environment may forbid to start programs, and need not have this memory.
            _log.info("the key pair is made by this process, not by a child", error=str(error))
    from scheduler.service.serving.self_signed import make_pair  # noqa: PLC0415

    return make_pair(now, VALID_FOR)


def _pair_of_a_child(now: datetime) -> tuple[bytes, bytes]:
    """Let a program make the pair. Raises OSError and subprocess.SubprocessError."""
    # -B: a run writes no file. -P: the folder of the program, and the present one, may hold a
    # module of any name.
    program = [sys.executable, "-BP", str(Path(__file__).with_name("self_signed.py"))]
    command = [*program, now.isoformat(), str(VALID_FOR.total_seconds())]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=_MAKING_SECONDS)  # noqa: S603 - ours
    certificate, begin, key = ended.stdout.partition(b"-----BEGIN PRIVATE KEY")
    return certificate, begin + key


def _write_pair(folder: Path, certificate: bytes, key: bytes) -> FilePair:
    pair = FilePair(folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key")
    pair.certificate.write_bytes(certificate)
    # Readable by the owner only, from its creation.
    pair.key.unlink(missing_ok=True)
    pair.key.touch(mode=0o600, exist_ok=False)
    pair.key.write_bytes(key)
    return pair
