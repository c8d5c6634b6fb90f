"""The way to the leader with nothing but a kubeconfig.

The Lease names the leader's pod, and has the hash of its certificate (`client.leader_record`). The
API server forwards a port of the pod; within that, TLS goes from here to the scheduler. Nothing is
sent before the certificate was found to have that hash: neither the API server nor a kubelet or
whoever plays one can read or answer a question. Client certificates go to it only as well, in a
second handshake. No connection is made to a host that the Lease names (`errors.OUTSIDE`). A leader
on this machine is asked in two cases: this user runs it, as a file says that nobody else can write
(`client.local_address`); or the API server of this machine speaks plain HTTP. That is how
experiments are asked (`kubestow demo --serve`, `kubestow apiserver`); no token of such a kubeconfig
is a secret.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from scheduler.cli import leader_errors as errors
from scheduler.cli.direct import api_server_failure, failure, is_this_machine
from scheduler.cli.exit_codes import NOT_PERMITTED, CommandError
from scheduler.cli.hints import kubectl
from scheduler.cli.import_without import import_without
from scheduler.cli.port_forward import ForwardingError, PortForward, UpgradeRefusedError
from scheduler.cli.routes import NotConnectedError, VerifiedConnection
from scheduler.cli.streams import SocketStream, Stream, TlsStream, connect, exchange

if TYPE_CHECKING:
    from scheduler.client.http.tls import ClientTls
    from scheduler.client.leader_record import LeaderRecord
    from scheduler.client.local_address import LocalAddress

DEFAULT_LEASE: Final = "kubestow-system/kubestow"
HOST: Final = "localhost"
"""For which the scheduler signs its certificate, and the `Host` header."""

MAX_LEASE_BYTES: Final = 1024 * 1024
CLUSTER_SECONDS: Final = 60.0
"""How long a loaded kubeconfig is used: a command that runs on must not send an expired token, or
run a credential plugin for each request."""

PUBLISHED_WITHIN: Final = 3.0
"""A leader that renews its certificate publishes the hash with the next renewal of the Lease."""
PUBLISHED_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The API server, and the user's credentials for it."""

    server: str
    tls: ClientTls | None
    server_name: str | None
    proxy: str | None
    authorization: str = field(repr=False)
    source: str
    #: Headers of each request, if the kubeconfig acts as another user.
    impersonation: tuple[tuple[str, str], ...] = ()

    def connect(self, timeout: float) -> Stream:
        """Connect to the API server."""
        context = None if self.tls is None else self.tls.current()
        return connect(self.server, timeout, tls=context, name=self.server_name, proxy=self.proxy)

    @property
    def host(self) -> str:
        """The `Host` header."""
        return urlsplit(self.server).netloc

    def unreached(self, error: Exception) -> NotConnectedError:
        """Return the error of a command whose request got no response."""
        return NotConnectedError(api_server_failure(self.server, self.source, error))

    def get(
        self, target: str, timeout: float, accept: str = "application/json"
    ) -> tuple[int, bytes]:
        """Get an object; return status and body, of which no more than `MAX_LEASE_BYTES`."""
        headers = {"User-Agent": "kubestow/cli", "Accept": accept}
        if self.authorization:
            headers["Authorization"] = self.authorization
        stream = self.connect(timeout)
        try:
            path = urlsplit(self.server).path.rstrip("/") + target
            with exchange(
                stream, self.host, "GET", path, headers, repeated=self.impersonation
            ) as response:
                return response.status, response.read(MAX_LEASE_BYTES)
        finally:
            stream.close()


class LeaderRoute:
    """The way through the API server; see `Route`. One for each Lease, used again and again."""

    def __init__(
        self,
        *,
        kubeconfig: str,
        context: str,
        lease: str = "",
        token: str = "",
        own: LocalAddress | None = None,
    ) -> None:
        """Prepare; `token` goes to the scheduler alone.

        `lease` is `namespace/name`: no other leader is asked. Without it that of `DEFAULT_LEASE` is
        asked, or a scheduler of this user that leads without a Lease. `own` is a scheduler of this
        user to ask in any case.
        """
        self._kubeconfig = kubeconfig
        self._context = context
        self._lease = lease or DEFAULT_LEASE
        self._or_own = not lease
        self._token = token
        self._own = None if own is None else _record_of(own)
        self._loaded: tuple[float, ClusterAccess] | None = None

    def connect(self, timeout: float) -> VerifiedConnection:
        """See `Route`."""
        cluster = self._cluster()
        if cluster.impersonation and not self._token:
            raise CommandError(errors.ACTS_AS.format(source=cluster.source), NOT_PERMITTED)
        record, deadline = self._record(cluster, timeout), None
        while (stream := self._verified(cluster, record, timeout)) is None:
            if deadline is None:
                # The connection may have taken longer than a leader to publish.
                deadline = time.monotonic() + PUBLISHED_WITHIN
            record = self._next_record(cluster, record, timeout, deadline)
        if self._token:
            authorization, credentials = f"Bearer {self._token}", "the given token"
        elif cluster.authorization:
            authorization, credentials = cluster.authorization, f"the token of {cluster.source}"
        else:
            authorization, credentials = "", f"the client certificate, if any, of {cluster.source}"
        return VerifiedConnection(
            stream,
            HOST,
            record.name,
            authorization,
            credentials,
            holder=record.holder,
            own=record.holder.startswith(_PROCESS),
        )

    def broken(self, connection: VerifiedConnection, error: Exception) -> NotConnectedError:
        """See `Route`."""
        return self._broken(connection.name, connection.holder, error)

    def moved(self, holder: str) -> bool:
        """See `Route`."""
        try:
            return self._record(self._cluster(), errors.LOOKUP_SECONDS).holder != holder
        except CommandError:
            return False

    def read_cluster(self, target: str, accept: str) -> tuple[int, bytes]:
        """Get an object of the cluster; return status and body.

        Raises:
            CommandError: the kubeconfig names no cluster.
            OSError, HTTPException: there was no response.
        """
        return self._cluster().get(target, errors.LOOKUP_SECONDS, accept)

    # -- the cluster and its Lease ---------------------------------------------------------------

    def _cluster(self) -> ClusterAccess:
        """Return the cluster of the kubeconfig, loaded anew after a minute."""
        now = time.monotonic()
        if self._loaded is None or now > self._loaded[0]:
            self._loaded = now + CLUSTER_SECONDS, asyncio.run(self._load())
        return self._loaded[1]

    async def _load(self) -> ClusterAccess:
        # With rich, structlog imports what prints tracebacks, a quarter of all imports.
        with import_without("rich"):
            from scheduler.client.configuration import load_configuration
            from scheduler.client.configuration_error import ConfigurationError

        try:
            found = await load_configuration(
                kubeconfig=self._kubeconfig or None, context=self._context or None
            )
            header = await found.authorization()
            await found.credentials.close()
        except ConfigurationError as error:
            raise NotConnectedError(errors.NO_CLUSTER.format(text=error)) from error
        return ClusterAccess(
            found.server, found.tls, found.server_hostname, found.proxy, header or "", found.source,
            found.impersonation,
        )  # fmt: skip

    def _record(self, cluster: ClusterAccess, timeout: float) -> LeaderRecord:
        """Read the Lease; return what its holder published."""
        from scheduler.client.leader_record import address_faults, leader_of

        if self._own is not None:
            return self._own
        namespace, _, name = self._lease.partition("/")
        target = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        try:
            status, body = cluster.get(target, timeout)
        except (OSError, HTTPException) as error:
            raise cluster.unreached(error) from error
        record = leader_of(_object(body)) if status == 200 else None
        if record is None and self._or_own and status in (200, 403, 404):
            own = list(_own_schedulers(cluster.server, ""))
            if len(own) > 1:
                raise errors.several(own)
            if own:
                return _record_of(own[0])
        if status != 200:
            raise errors.lease_refused(self._lease, cluster, status, body)
        if record is None:
            text = errors.NO_LEADER.format(
                lease=self._lease, namespace=namespace, kubectl=kubectl()
            )
            raise NotConnectedError(text)
        if not record.reachable:
            text = errors.NO_ADDRESS.format(holder=record.holder, lease=self._lease)
            raise NotConnectedError(text, record.holder)
        if faults := address_faults(record, namespace):
            text = errors.BAD_ADDRESS.format(
                lease=self._lease,
                faults=", ".join(faults),
                namespace=namespace,
                name=name,
                kubectl=kubectl(),
            )
            raise NotConnectedError(text, record.holder)
        return record if record.pod else self._outside(cluster, record)

    def _outside(self, cluster: ClusterAccess, record: LeaderRecord) -> LeaderRecord:
        """Return where on this machine to find a leader outside of the cluster."""
        for own in _own_schedulers(cluster.server, self._lease):
            if own.certificate_sha256 == record.certificate_sha256:
                return msgspec.structs.replace(_record_of(own), holder=record.holder)
        if self._is_experiment(cluster, record):
            here = is_this_machine(f"//{record.address}")
            return record if here else msgspec.structs.replace(record, host=HOST)
        text = errors.OUTSIDE.format(
            holder=record.holder, lease=self._lease, address=record.address, port=record.port
        )
        raise NotConnectedError(text, record.holder)

    def _is_experiment(self, cluster: ClusterAccess, record: LeaderRecord) -> bool:
        """Whether API server and leader run on this machine, and no secret would be sent."""
        if self._token or cluster.tls is not None or not is_this_machine(cluster.server):
            return False
        return record.host == socket.gethostname() or is_this_machine(f"//{record.address}")

    def _next_record(
        self, cluster: ClusterAccess, former: LeaderRecord, timeout: float, deadline: float
    ) -> LeaderRecord:
        """Wait for another record than the one whose certificate was not found."""
        while time.monotonic() < deadline:
            time.sleep(PUBLISHED_PAUSE)
            record = self._record(cluster, timeout)
            if record != former:
                return record
        raise NotConnectedError(errors.MISMATCH.format(name=former.name, lease=self._lease))

    # -- the tunnel and the certificate ----------------------------------------------------------

    def _verified(
        self, cluster: ClusterAccess, record: LeaderRecord, timeout: float
    ) -> Stream | None:
        """Connect and check the certificate; None if its hash is another than the Lease's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Not by a name or an authority: the hash says which certificate it must be.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        stream = self._handshake(cluster, record, timeout, context)
        if stream.certificate_sha256() != record.certificate_sha256:
            stream.close()
            return None
        if self._token or cluster.authorization or cluster.tls is None:
            return stream
        if not cluster.tls.has_certificate:
            return stream
        certificate = stream.certificate()
        stream.close()
        return self._handshake(cluster, record, timeout, cluster.tls.trusting(certificate))

    def _handshake(
        self, cluster: ClusterAccess, record: LeaderRecord, timeout: float, context: ssl.SSLContext
    ) -> TlsStream:
        try:
            tunnel = self._below(cluster, record, timeout)
        except OSError as error:
            raise self._broken(record.name, record.holder, error) from error
        try:
            return TlsStream(tunnel, context, HOST)
        except (OSError, HTTPException) as error:
            tunnel.close()
            raise self._broken(record.name, record.holder, error) from error

    def _below(self, cluster: ClusterAccess, record: LeaderRecord, timeout: float) -> Stream:
        """Return what carries TLS: a forwarded port, or a connection within this machine."""
        if record.pod:
            return self._tunnel(cluster, record, timeout)
        return SocketStream(record.host, record.port, timeout)

    def _broken(self, name: str, holder: str, error: Exception) -> NotConnectedError:
        text = str(error) if isinstance(error, ForwardingError) else failure(error)
        return NotConnectedError(
            errors.BROKEN.format(name=name, text=text, lease=self._lease), holder
        )

    def _tunnel(self, cluster: ClusterAccess, record: LeaderRecord, timeout: float) -> PortForward:
        try:
            stream = cluster.connect(timeout)
        except (OSError, HTTPException) as error:
            raise cluster.unreached(error) from error
        try:
            return PortForward(
                stream,
                cluster.host,
                pod=record.pod,
                port=record.port,
                authorization=cluster.authorization,
                prefix=urlsplit(cluster.server).path.rstrip("/"),
                repeated=cluster.impersonation,
            )
        except UpgradeRefusedError as refusal:
            stream.close()
            raise errors.tunnel_refused(record, cluster, refusal) from refusal
        except (OSError, HTTPException) as error:
            stream.close()
            raise cluster.unreached(error) from error


_PROCESS: Final = "process "
"""Begins the name of a scheduler of this user; `holderIdentity` has no blanks."""


def own_at(url: str) -> LocalAddress | None:
    """Return the scheduler of this user on this machine that serves at a URL."""
    from scheduler.client.local_address import addresses, folder

    return next((each for each in addresses(folder()) if each.url == url.rstrip("/")), None)


def _own_schedulers(api_server: str, lease: str) -> Iterator[LocalAddress]:
    """Yield the schedulers of an API server that this user runs on this machine.

    `lease` is empty for those that lead without a Lease.
    """
    from scheduler.client.local_address import addresses, folder

    for each in addresses(folder()):
        if (each.api_server, each.lease) == (api_server, lease):
            yield each


def _record_of(own: LocalAddress) -> LeaderRecord:
    from scheduler.client.leader_record import LeaderRecord

    return LeaderRecord(
        f"{_PROCESS}{own.pid}",
        host=own.host,
        port=own.port,
        certificate_sha256=own.certificate_sha256,
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CommandError("the API server answered with something else than a Lease")
    return value
