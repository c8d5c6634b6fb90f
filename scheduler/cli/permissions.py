"""The permissions of a configuration, as the running scheduler would declare them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from scheduler.framework import Permission
    from scheduler.service.options import RunOptions

_ACCOUNT_PARTS: Final = 2
_NOWHERE: Final = "https://localhost"
"""The server of a scheduler that is built and never runs."""


def service_account(text: str) -> tuple[str, str]:
    """Return namespace and name of the ServiceAccount that an option names.

    Raises:
        click.UsageError: it names none.
    """
    from scheduler.sanitizing.names import is_namespace_name, is_object_name

    parts = text.split("/")
    if len(parts) == _ACCOUNT_PARTS and is_namespace_name(parts[0]) and is_object_name(parts[1]):
        return parts[0], parts[1]
    raise click.UsageError(
        f'--service-account: "{text}" is not NAMESPACE/NAME, such as kubestow-system/kubestow'
    )


def needed_permissions(options: RunOptions) -> tuple[Permission, ...]:
    """Return what a run with these options needs. Builds its parts; nothing is sent.

    Raises:
        ConfigurationError: the configuration is invalid.
    """
    return asyncio.run(_declared(options))


def reading_permissions(options: RunOptions) -> tuple[Permission, ...]:
    """Return what a shadow with these options needs. Builds its parts; nothing is sent.

    Raises:
        ConfigurationError: the configuration is invalid.
    """
    return asyncio.run(_declared_by_shadow(options))


async def _declared_by_shadow(options: RunOptions) -> tuple[Permission, ...]:
    from scheduler.client.configuration import ClientConfiguration
    from scheduler.client.read_only import ReadOnlyTransport
    from scheduler.metrics import SchedulerMetrics
    from scheduler.service.options import available_plugins, read_configuration
    from scheduler.shadow.wiring import wire

    registry = available_plugins()
    wiring = wire(
        read_configuration(options, registry),
        registry,
        ReadOnlyTransport(ClientConfiguration(server=_NOWHERE)),
        metrics=SchedulerMetrics(process=False),
    )
    try:
        return wiring.state.permissions.declared
    finally:
        await wiring.close()


async def _declared(options: RunOptions) -> tuple[Permission, ...]:
    # Imported here: the service takes longer to load than `--help` takes.
    from scheduler.client.configuration import ClientConfiguration
    from scheduler.client.fence import OpenFence
    from scheduler.client.transport import Transport
    from scheduler.metrics import SchedulerMetrics
    from scheduler.service.options import available_plugins, read_configuration
    from scheduler.stages.wiring import wire

    registry = available_plugins()
    wiring = wire(
        read_configuration(options, registry),
        registry,
        options,
        Transport(ClientConfiguration(server=_NOWHERE)),
        fence=OpenFence(),
        metrics=SchedulerMetrics(process=False),
    )
    try:
        return wiring.state.permissions.declared
    finally:
        await wiring.close()
