"""`kubestow apiserver`: the embedded API server alone, for experiments with any client."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scheduler.files import read_file, reason

if TYPE_CHECKING:
    from simulator.controllers.autoscaler_groups import Settings as AutoscalerSettings


@click.command("apiserver", short_help="Serve an API server for experiments.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--personality",
    type=click.Choice(["stock", "native"]),
    default="stock",
    show_default=True,
    help="stock behaves like Kubernetes v1.37; native also has what the KEPs add to the API.",
)
@click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Single gates of the API server, over what the personality sets.",
)
@click.option(
    "--controller-feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="The same for its controllers, which may disagree with the server.",
)
@click.option(
    "--clock-rate",
    type=click.FloatRange(min=0.0),
    default=1.0,
    show_default=True,
    help="Simulated seconds in a real one; 0 stops the clock.",
)
@click.option(
    "--quota-resync",
    type=click.FloatRange(min=0.0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two recounts of all resource quotas.",
)
@click.option(
    "--kueue",
    metavar="NAME=VALUE,...",
    help="Imitate Kueue with these settings, such as batch=2,everySeconds=5,addGate=true; GET "
    "/_kubestow/ lists them.",
)
@click.option(
    "--autoscaler",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML or JSON with node groups that a simulated autoscaler may let grow.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig for this server here.",
)
def command(**values: Any) -> None:
    """Serve an API server from memory, until interrupted.

    It imitates kube-apiserver v1.37 as far as schedulers, kubectl and tests look, with a kubelet
    that runs what is bound. It speaks plain HTTP, lets everybody do everything and forgets all when
    it ends: for experiments only. GET /_kubestow/ on it explains how to inject faults, turn the
    clock and switch controllers. Of protobuf it reads what `kubectl create NAME` sends; give
    kubectl files (`create -f`, `apply`) for anything else.

    \b
    Example, in three terminals:
      kubestow apiserver --kubeconfig-out kc.yaml
      kubestow run --kubeconfig kc.yaml --bind-address=127.0.0.1
      kubectl --kubeconfig kc.yaml get pods -A --watch

    \b
    With --autoscaler, pods that find no place make node groups grow, or fail to:
      groups:
        - name: zone-b              # state: ok, refuse, stockout, hang or off
          zone: eu-1b
          state: stockout
          max: 3
          template: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}
    """  # noqa: D301 - click wants the character itself
    gates = parse_gates(values["feature_gates"])
    controller_gates = parse_gates(
        values["controller_feature_gates"], "--controller-feature-gates", "controllers"
    )
    settings = read_autoscaler(values["autoscaler"])
    asyncio.run(_serve(values, gates, controller_gates, settings))


def parse_gates(
    texts: tuple[str, ...], flag: str = "--feature-gates", component: str = "apiserver"
) -> dict[str, bool]:
    """Read gates by name; those that have no effect on the component are refused.

    >>> parse_gates(("GenericWorkload=true",))
    {'GenericWorkload': True}
    """
    from simulator.gates import EFFECTIVE_GATES

    found = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, _, value = part.partition("=")
        if not part:
            continue
        if not name or value.lower() not in ("true", "false"):
            raise click.UsageError(
                f'invalid argument "{part}" for "{flag}": write Name=true or Name=false'
            )
        if name not in EFFECTIVE_GATES[component]:
            raise click.UsageError(_refusal(name, flag, EFFECTIVE_GATES[component]))
        found[name] = value.lower() == "true"
    return found


def _refusal(name: str, flag: str, effective: tuple[str, ...]) -> str:
    from config import GATES
    from scheduler.cli.component_gates import OTHER_COMPONENTS

    if name in OTHER_COMPONENTS or name in GATES:
        text = f"feature gate {name} has no effect on this server"
    else:
        text = f"unrecognized feature gate: {name[:80]}"
    return f"{flag}: {text}; leave it out, or set one of {', '.join(effective)}"


def read_autoscaler(path: Path | None) -> AutoscalerSettings | None:
    """Read the settings in a file; None without one. Errors name file and field."""
    if path is None:
        return None
    import yaml

    from simulator.controllers.autoscaler_groups import GroupError, parse_settings

    try:
        return parse_settings(yaml.safe_load(read_file(path, pipes=True)))
    except (GroupError, yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"--autoscaler {path}: {reason(error)}") from error


async def _serve(
    values: dict[str, Any],
    gates: dict[str, bool],
    controller_gates: dict[str, bool],
    autoscaler: AutoscalerSettings | None,
) -> None:
    from simulator import EmbeddedCluster, serve
    from simulator.controllers.kueue import parse_settings

    try:
        kueue = None if values["kueue"] is None else parse_settings(values["kueue"])
    except ValueError as error:
        raise click.UsageError(f'invalid argument for "--kueue": {error}') from error
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    ready: asyncio.Future[EmbeddedCluster] = loop.create_future()
    kubeconfig: Path | None = values["kubeconfig_out"]
    ready.add_done_callback(lambda done: _announce(done.result().url, kubeconfig, gates))
    try:
        await serve(
            host=values["host"],
            port=values["port"],
            personality=values["personality"],
            feature_gates=gates,
            controller_gates=controller_gates,
            autoscaler=autoscaler,
            clock_rate=values["clock_rate"],
            quota_resync_seconds=values["quota_resync"],
            kueue=kueue,
            kubeconfig=kubeconfig,
            stop=stop,
            ready=ready,
        )
    except OSError as error:
        where = f"{values['host']}:{values['port']}"
        raise click.ClickException(f"cannot serve on {where}: {error.strerror or error}") from error


def _announce(url: str, kubeconfig: Path | None, gates: dict[str, bool]) -> None:
    click.echo(f"API server: {url}")
    click.echo(f"control:    {url}/_kubestow/")
    if gates:
        listed = ", ".join(f"{name}={str(on).lower()}" for name, on in gates.items())
        click.echo(f"gates:      {listed}")
    if kubeconfig is not None:
        click.echo(f"kubeconfig: {kubeconfig}")
