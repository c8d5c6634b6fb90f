"""The HTTPS endpoints: health open to everyone, the rest behind the cluster's access control."""

from scheduler.service.serving.access import (
    AccessUnknownError,
    Authenticator,
    Authorizer,
    Credentials,
    DelegatedAuthenticator,
    DelegatedAuthorizer,
)
from scheduler.service.serving.application import Endpoints, create_handler
from scheduler.service.serving.certificates import ServingError, ServingTls
from scheduler.service.serving.debug_pages import DebugPages
from scheduler.service.serving.delegation import delegated_authenticator, delegated_authorizer
from scheduler.service.serving.health import Check, HealthChecks, scheduler_checks
from scheduler.service.serving.server import HttpsServer
from scheduler.service.serving.slis import HealthSlis

__all__ = [
    "AccessUnknownError",
    "Authenticator",
    "Authorizer",
    "Check",
    "Credentials",
    "DebugPages",
    "DelegatedAuthenticator",
    "DelegatedAuthorizer",
    "Endpoints",
    "HealthChecks",
    "HealthSlis",
    "HttpsServer",
    "ServingError",
    "ServingTls",
    "create_handler",
    "delegated_authenticator",
    "delegated_authorizer",
    "scheduler_checks",
]
