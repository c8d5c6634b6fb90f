"""Output of commands for a configuration with credentials."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.command_line import Shell

TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://joe:canary@x/
  filterVerb: filter
"""


def test_credentials_are_printed_on_demand_only(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    hidden = shell("config", "show", str(path))
    assert "urlPrefix: http://[redacted]@x/" in hidden.out
    assert "--show-secrets" in hidden.err
    for arguments in ((), ("--upstream",)):
        shown = shell("config", "show", str(path), "--show-secrets", *arguments)
        assert "urlPrefix: http://joe:canary@x/" in shown.out
        assert shown.err == ""


def test_without_credentials_no_warning_is_printed(shell: Shell) -> None:
    assert shell("config", "show").err == ""
    assert shell("config", "show").out == shell("config", "show", "--show-secrets").out


def test_a_written_configuration_is_whole_and_for_its_owner_alone(
    shell: Shell, tmp_path: Path
) -> None:
    path, written = tmp_path / "config.yaml", tmp_path / "written.yaml"
    path.write_text(TEXT)
    ended = shell("run", "--config", str(path), "--write-config-to", str(written))
    assert ended.code == 0, ended.err
    assert "urlPrefix: http://joe:canary@x/" in written.read_text()
    assert written.stat().st_mode & 0o777 == 0o600
