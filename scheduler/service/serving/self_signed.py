"""The self-signed certificate that is served if none is given.

As a program, with the arguments of `make_pair` as ISO 8601 and seconds, it prints the two PEMs.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def make_pair(now: datetime, valid_for: timedelta) -> tuple[bytes, bytes]:
    """Return a certificate for `localhost` and the loopback addresses, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"localhost@{int(now.timestamp())}")])
    names = x509.SubjectAlternativeName(
        [
            x509.DNSName("localhost"),
            x509.IPAddress(ip_address("127.0.0.1")),
            x509.IPAddress(ip_address("::1")),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks may differ by an hour.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + valid_for)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


if __name__ == "__main__":
    sys.stdout.buffer.writelines(
        make_pair(datetime.fromisoformat(sys.argv[1]), timedelta(seconds=float(sys.argv[2])))
    )
