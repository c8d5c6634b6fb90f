"""The address at which this process can be asked: on its Lease, and in a file of its user."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Final, Self

import structlog

from scheduler.client.leader_record import LeaderAddress
from scheduler.client.local_address import AddressFile, LocalAddress, addresses, folder
from scheduler.service.options import own_host, own_pod

_log: Final = structlog.get_logger(__name__)


class OwnAddress:
    """The address of the HTTPS endpoints, as far as it is known. A context manager."""

    def __init__(
        self,
        bind_address: str,
        *,
        api_server: str = "",
        lease: str = "",
        scheduler_names: tuple[str, ...] = (),
    ) -> None:
        """Prepare. All but `bind_address` is for the file, which is written outside of a cluster.

        Without an `api_server` there is none.
        """
        pod = own_pod()
        #: The part of the record on the Lease.
        self.on_lease = LeaderAddress(pod, "" if pod else own_host(bind_address))
        self._host = reached_at(bind_address)
        self._api_server, self._lease = api_server, lease
        self._scheduler_names = scheduler_names
        directory = folder() if api_server and not pod else None
        self._file = None if directory is None else AddressFile(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.remove()

    def listens(self, port: int) -> None:
        """Publish the port."""
        self.on_lease.port = port
        self._warn_of_others()
        self._write()

    def shows(self, certificate_sha256: str) -> None:
        """Publish the hash of the certificate."""
        self.on_lease.certificate_sha256 = certificate_sha256
        self._write()

    def _warn_of_others(self) -> None:
        """Say which other schedulers of this user take the same pods, unless they take turns."""
        if self._file is None:
            return
        for other in addresses(folder()):
            shared = {*other.scheduler_names} & {*self._scheduler_names}
            turns = bool(self._lease) and other.lease == self._lease
            if other.api_server != self._api_server or turns or not shared:
                continue
            _log.warning(
                "another scheduler on this machine takes the same pods: they will disturb each "
                "other; stop one of them, or give it another schedulerName",
                other=f"process {other.pid} at {other.url}",
                scheduler_names=sorted(shared),
            )

    def _write(self) -> None:
        port, certificate = self.on_lease.port, self.on_lease.certificate_sha256
        if self._file is None or not (port and certificate):
            return
        address = LocalAddress(
            os.getpid(), self._api_server, self._lease, self._host, port, certificate,
            self._scheduler_names,
        )  # fmt: skip
        try:
            self._file.write(address)
        except OSError as error:
            # Commands then need --server.
            _log.info("no file with the own address", reason=str(error))


def reached_at(bind_address: str) -> str:
    """Return where this machine finds a process that listens on an address.

    >>> reached_at("0.0.0.0"), reached_at("::"), reached_at("192.0.2.7")
    ('127.0.0.1', '::1', '192.0.2.7')
    """
    if not bind_address:
        return "127.0.0.1"
    try:
        address = ip_address(bind_address)
    except ValueError:
        return bind_address
    if not address.is_unspecified:
        return bind_address
    return "127.0.0.1" if address.version == 4 else "::1"
