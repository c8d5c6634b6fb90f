"""Client certificates for tests, good ones and others, in files."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
DAY = timedelta(days=1)


def issue(
    folder: Path,
    name: str,
    issuer: str = "",
    groups: Sequence[str] = (),
    *,
    authority: bool = False,
    starts: timedelta = -DAY,
    ends: timedelta = DAY,
    usages: Sequence[ObjectIdentifier] = (),
) -> Path:
    """Write `<name>.crt` and `<name>.key`; without an issuer, those of an authority."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    subject = x509.Name(attributes)
    signer, signed_by = key, subject
    if issuer:
        loaded = serialization.load_pem_private_key((folder / f"{issuer}.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer, signed_by = loaded, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)])
    constraints = x509.BasicConstraints(ca=authority or not issuer, path_length=None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
        .add_extension(constraints, critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    path = folder / f"{name}.crt"
    certificate = builder.sign(signer, hashes.SHA256())
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def chain(folder: Path, length: int, issuer: str) -> Path:
    """Write a certificate below so many intermediate authorities, with all of them."""
    above = []
    for number in range(length):
        path = issue(folder, f"intermediate-{number}", issuer, authority=True)
        above.append(path.read_text())
        issuer = path.stem
    leaf = issue(folder, "leaf", issuer)
    leaf.write_text(leaf.read_text() + "".join(reversed(above)))
    return leaf


def with_certificate(path: Path | None, newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """Return a client's context that accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if newest is not None:
        context.maximum_version = newest
    if path is not None:
        context.load_cert_chain(path, path.with_suffix(".key"))
    return context
