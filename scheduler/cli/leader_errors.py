"""Texts of `leader`: what failed on the way to the scheduler, and the command that helps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from scheduler.cli import exit_codes
from scheduler.cli.exit_codes import NOT_PERMITTED, OTHER_ERROR, CommandError
from scheduler.cli.hints import ADMINISTRATORS_KUBECTL, kubectl
from scheduler.cli.routes import NotConnectedError
from scheduler.sanitizing.names import is_object_name

if TYPE_CHECKING:
    from scheduler.cli.leader import ClusterAccess
    from scheduler.cli.port_forward import UpgradeRefusedError
    from scheduler.client.leader_record import LeaderRecord
    from scheduler.client.local_address import LocalAddress

LOOKUP_SECONDS: Final = 5.0
"""For the Lease, when a connection broke."""

NO_CLUSTER: Final = (
    "cannot find the cluster: {text}\n"
    "Without --server the command asks the API server of a kubeconfig for the leader."
)
ACTS_AS: Final = (
    "{source} acts as another user (as), which only an API server understands: the scheduler would "
    "take\nthe command for one of the user behind it. Nothing was sent. Give --token, or a "
    "kubeconfig without as."
)
NO_API_SERVER: Final = "cannot reach the API server {server} ({source}): {text}"
_OTHERWISE: Final = "otherwise look at its pods:  {kubectl} -n {namespace} get pods"
NO_LEADER: Final = (
    "nobody holds the Lease {lease} now: no replica leads. A new one takes over within seconds;\n"
    f"{_OTHERWISE}\n"
    "A scheduler with --leader-elect=false holds no Lease: without --lease it is found on the "
    "machine of\nthe user who runs it; elsewhere give --server URL."
)
SEVERAL: Final = (
    "several schedulers of yours run on this machine without a Lease; name the one to ask:\n{lines}"
)
NO_ADDRESS: Final = (
    "{holder}, which holds the Lease {lease}, does not publish how to reach it: it serves no "
    "HTTPS,\nor is another program or an older version. Give --server URL."
)
OUTSIDE: Final = (
    "{holder}, which holds the Lease {lease}, runs outside of the cluster, and says that it serves "
    "at {address}.\n"
    "Nothing was sent: whoever may write the Lease could name any host. If you know this one, "
    "give\n"
    "  --server https://{address} --ca-file FILE\n"
    "with its certificate, or the authority that signed it. If the host listens to itself only, "
    "open a tunnel,\n"
    "  ssh -L {port}:localhost:{port} HOST\n"
    "and give  --server https://localhost:{port} --insecure-skip-tls-verify"
)
BAD_ADDRESS: Final = (
    "the Lease {lease} has an address of its leader that no kubestow publishes: {faults}.\n"
    "Nothing was sent. Somebody who may write the Lease may have put it there: look at the "
    "annotation\n"
    "  {kubectl} -n {namespace} get lease {name} -o yaml\n"
    "The leader replaces it when it renews the Lease. A leader in another namespace than its Lease "
    "is reached with --server URL."
)
NO_LEASE: Final = (
    "there is no Lease {lease}: kubestow is not installed there yet (docs/install.md says how), or "
    "its\nconfiguration has another leaderElection.resourceNamespace or resourceName. Give "
    "--lease NAMESPACE/NAME.\n"
    "A scheduler with --leader-elect=false has none: without --lease it is found on the machine of "
    "the user\nwho runs it; elsewhere give --server URL."
)
BROKEN: Final = (
    "{name} cannot be reached: {text}\n"
    "The Lease {lease} still names it. If it is gone, another replica takes over within seconds."
)
MISMATCH: Final = (
    "the certificate at {name} is not the one that it published on its Lease {lease}.\n"
    "Nothing was sent. Somebody on the way there may be reading along, or it is no longer the "
    "leader."
)
NO_WEBSOCKET: Final = (
    "{server} did not open a WebSocket to port {port} of pod {pod}: HTTP {status}: {text}\n"
    "The API server, or a proxy before it, speaks no WebSocket. kubectl knows another protocol:\n"
    "  {kubectl} -n {namespace} port-forward pod/{name} {port}\n"
    "and beside it, the command with  --server https://localhost:{port} --insecure-skip-tls-verify"
)
NO_POD: Final = (
    "pod {pod}, which leads, cannot be reached: {text}\n"
    "If it is gone, another replica takes over within seconds;\n"
    f"{_OTHERWISE}"
)
UNAUTHENTICATED: Final = (
    "the API server {server} does not accept the credentials of {source}\n"
    "Does kubectl work with them?  {kubectl} auth whoami"
)
MAY_NOT: Final = (
    "{text}\n"
    "To ask the scheduler, a user reads its Lease and forwards a port of its pods. An\n"
    "administrator grants the role for it, with\n"
    "  {kubectl} -n {namespace} create rolebinding kubestow-explainer-{name} \\\n"
    "      --role=kubestow-explainer {subject}\n"
    "If there is no such role:  kubestow config rbac --explainer | {kubectl} apply -f -"
)
_DENIED: Final = re.compile(r'User "([A-Za-z0-9@._:+/-]{1,253})" cannot ')
_ACCOUNT: Final = "system:serviceaccount:"


def subject_of(text: str) -> dict[str, str]:
    """Return name and subject of a binding for the user whom an API server refuses something.

    >>> subject_of('leases is forbidden: User "system:serviceaccount:ops:bot" cannot get it')
    {'name': 'bot', 'subject': '--serviceaccount=ops:bot'}
    >>> subject_of('User "ann@example.com" cannot get path'), subject_of("no")["subject"]
    ({'name': 'USER', 'subject': '--user=ann@example.com'}, '--user=USER')
    """
    found = _DENIED.search(text)
    user = found[1] if found is not None else "USER"
    if user.startswith(_ACCOUNT):
        account = user.removeprefix(_ACCOUNT)
        return {"name": account.rpartition(":")[2], "subject": f"--serviceaccount={account}"}
    return {"name": user if is_object_name(user) else "USER", "subject": f"--user={user}"}


def several(own: Sequence[LocalAddress]) -> CommandError:
    """Return the error of a question that schedulers of this user could answer differently."""
    lines = [
        f"  --server {each.url}  schedulerName {', '.join(each.scheduler_names) or 'unknown'}"
        for each in own
    ]
    return CommandError(SEVERAL.format(lines="\n".join(lines)), OTHER_ERROR)


def lease_refused(lease: str, cluster: ClusterAccess, status: int, body: bytes) -> CommandError:
    """Return the error for a Lease that could not be read."""
    server = cluster.server
    namespace, text = lease.partition("/")[0], status_message(body)
    match status:
        case 401:
            return unauthenticated(cluster.server, cluster.source)
        case 403:
            return CommandError(_may_not(text, namespace), NOT_PERMITTED)
        case 404:
            return NotConnectedError(NO_LEASE.format(lease=lease))
    return CommandError(f"{server} responded with {status}: {text}", OTHER_ERROR)


def _may_not(text: str, namespace: str) -> str:
    kubectl = ADMINISTRATORS_KUBECTL
    return MAY_NOT.format(text=text, namespace=namespace, kubectl=kubectl, **subject_of(text))


def unauthenticated(server: str, source: str) -> CommandError:
    """Return the error for credentials that an API server does not know."""
    text = UNAUTHENTICATED.format(server=server, source=source, kubectl=kubectl())
    return CommandError(text, NOT_PERMITTED)


def tunnel_refused(
    record: LeaderRecord, cluster: ClusterAccess, refusal: UpgradeRefusedError
) -> CommandError:
    """Return the error for a port that could not be forwarded."""
    namespace, _, name = record.pod.partition("/")
    text = status_message(refusal.body)
    match refusal.status:
        case 401:
            return unauthenticated(cluster.server, cluster.source)
        case 403 if _is_status(refusal.body):
            return CommandError(_may_not(text, namespace), NOT_PERMITTED)
        case 404 | 500 | 502 | 503 | 504 if _is_status(refusal.body):
            message = NO_POD.format(
                pod=record.pod, text=text, namespace=namespace, kubectl=kubectl()
            )
            return NotConnectedError(message, record.holder)
    text = NO_WEBSOCKET.format(
        server=cluster.server,
        port=record.port,
        pod=record.pod,
        status=refusal.status,
        text=text,
        namespace=namespace,
        name=name,
        kubectl=kubectl(),
    )
    # A proxy that fails for a moment answers with a status above 500.
    code = exit_codes.NO_WEBSOCKET if refusal.status < 500 else exit_codes.UNREACHABLE
    return NotConnectedError(text, record.holder, code)


def status_message(body: bytes) -> str:
    """Return the message of a Status, or the body as text."""
    text = body.decode("utf-8", "replace").strip()
    status = _decoded(body)
    return str(status.get("message", text)) if isinstance(status, dict) else text


def _is_status(body: bytes) -> bool:
    """Whether it is the API server that answers, and not a proxy before it."""
    status = _decoded(body)
    return isinstance(status, dict) and status.get("kind") == "Status"


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
