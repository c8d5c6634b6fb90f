"""The example price_gate on a real API server: one forecast holds a pod, another frees it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "price_gate"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORECASTS: Final = "/apis/example.com/v1/priceforecasts"
ANNOTATION: Final = "example.com/finish-by"


def hours_from_now(hours: float) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def prices(now: float, later: float) -> dict[str, Any]:
    """A forecast with another price in two hours."""
    steps = [(-1, now), (2, later)]
    return {"prices": [{"time": hours_from_now(at), "price": price} for at, price in steps]}


def test_a_pod_waits_for_a_low_price_until_the_forecast_changes(
    control_plane: ControlPlane,
) -> None:
    definition, forecast = yaml.safe_load_all((EXAMPLE / "forecast.yaml").read_text("utf-8"))
    admin = control_plane.admin
    admin.request("POST", DEFINITIONS, definition)

    def created() -> bool:
        try:
            admin.ensure(FORECASTS, {**forecast, "spec": prices(90, 20)})
        except ApiError:
            return False
        return True

    try:
        until(created, "the API server serves forecasts")
        with Workload(control_plane, "prices") as work:
            work.node("n1")
            config = yaml.safe_load((EXAMPLE / "config.yaml").read_text("utf-8"))
            arguments = [f"--plugin-dir={EXAMPLE}"]
            process = start_kubestow(control_plane, config, arguments, name="kubestow-prices")
            work.pod("batch", annotations={ANNOTATION: hours_from_now(12)})
            until(lambda: work.events("WaitingForPrice"), "the pod waits for a price")
            work.pod("web")
            work.until_bound("web")
            assert "batch" not in work.bound()
            admin.request("PATCH", f"{FORECASTS}/electricity", {"spec": prices(20, 90)})
            work.until_bound("batch")
            process.stop_cleanly()
    finally:
        admin.request("DELETE", f"{DEFINITIONS}/priceforecasts.example.com")
