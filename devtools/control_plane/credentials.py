"""Credentials of the control plane and its clients: keys, tokens, kubeconfig files.

All of it lives in the control plane's own directory and is worth nothing outside 127.0.0.1.
"""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from devtools.control_plane.ports import LOOPBACK

ADMIN_USER: Final = "envtest-admin"
ADMIN_GROUP: Final = "system:masters"


def write_service_account_keys(private: Path, public: Path) -> None:
    """Write a new RSA key pair as PEM: the API server signs service account tokens with it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    private.chmod(0o600)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def write_token_file(path: Path) -> str:
    """Write a static token file with one administrator; return the token.

    The group `system:masters` is above RBAC, so this user works before any role exists.
    """
    token = secrets.token_urlsafe(32)
    path.write_text(f'{token},{ADMIN_USER},{ADMIN_USER},"{ADMIN_GROUP}"\n')
    path.chmod(0o600)
    return token


def write_kubeconfig(
    path: Path, *, port: int, authority: Path, token: str, user: str, namespace: str
) -> None:
    """Write a self-contained kubeconfig for the API server on `port`, as JSON, which is YAML."""
    cluster = {
        "server": f"https://{LOOPBACK}:{port}",
        "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "envtest", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [
            {
                "name": "envtest",
                "context": {"cluster": "envtest", "user": user, "namespace": namespace},
            }
        ],
        "current-context": "envtest",
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    path.chmod(0o600)
