"""The commands other than `run`: help, version, config, apiserver."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import click
import pytest
import yaml

from config import API_VERSION, GATES, KIND
from scheduler.cli import main
from scheduler.cli.habits import MEANT
from scheduler.cli.main import program
from tests.unit.cli.command_line import Shell
from tests.unit.repository.tree import ROOT

HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


def write(folder: Path, text: str) -> str:
    path = folder / "profile.yaml"
    path.write_text(HEADER + text)
    return str(path)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help_teaches(shell: Shell, arguments: list[str]) -> None:
    ended = shell(*arguments)
    assert ended.code == 0
    for word in ("Usage: kubestow", "schedulerName", "Examples:", "run ", "config ", "apiserver "):
        assert word in ended.out


@pytest.mark.parametrize(
    "command", [["run"], ["config"], ["config", "validate"], ["config", "show"], ["apiserver"]]
)
def test_every_command_has_help(shell: Shell, command: list[str]) -> None:
    ended = shell(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: kubestow {' '.join(command)}" in ended.out


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["run", "--help"]], ids=" ".join)
def test_help_and_version_import_nothing_large(line: list[str]) -> None:
    program = (
        "import sys\n"
        "from scheduler.cli.main import main\n"
        f"try: main({line})\n"
        "except SystemExit: pass\n"
        "heavy = {'aiohttp', 'numpy', 'rich.console', 'prometheus_client'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_commands_that_do_not_exist_yet_are_not_offered(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main.COMMANDS, "later", main.LazyCommand("scheduler.cli.later", "Not yet."))
    monkeypatch.setitem(main.GROUPS, "Soon", {"later": "Not yet."})
    assert "Not yet." not in shell("--help").out
    ended = shell("later")
    assert ended.code == 2
    assert "No such command 'later'" in ended.err


@pytest.mark.parametrize(
    ("name", "arguments", "start"),
    [
        ("kubestow", ["--version"], "kubestow "),
        ("kubestow", ["version"], "kubestow "),
        ("kubestow", ["run", "--version"], "kubestow "),
        ("kube-scheduler", ["--version"], "Kubernetes v1.37."),
        ("kube-scheduler", ["--version=true"], "Kubernetes v1.37."),
    ],
)
def test_the_version_is_printed(shell: Shell, name: str, arguments: list[str], start: str) -> None:
    ended = shell(*arguments, name=name)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(start)
    assert "1.37" in ended.out
    assert len(ended.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("kubestow", ["version", "-o", "json"]), ("kube-scheduler", ["--version=raw"])],
)
def test_everything_about_the_build_is_json(shell: Shell, name: str, arguments: list[str]) -> None:
    info = json.loads(shell(*arguments, name=name).out)
    assert (info["major"], info["minor"]) == ("1", "37")
    assert info["gitVersion"].startswith("v1.37.0+kubestow.")


# ------------------------------------------------------------------------------------------- config


def test_a_good_file_is_valid(shell: Shell, tmp_path: Path) -> None:
    path = write(tmp_path, "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    ended = shell("config", "validate", path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == f"{path}: valid"
    assert [line.split(":")[0] for line in lines[1:]] == ["  profile a", "  profile b"]


def test_every_problem_of_a_bad_file_is_printed_with_its_place(
    shell: Shell, tmp_path: Path
) -> None:
    path = write(
        tmp_path,
        "parallelism: 0\n"
        "percentageOfNodesToScore: 101\n"
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocalty}]}}}]\n",
    )
    ended = shell("config", "validate", path)
    assert (ended.code, ended.out) == (1, "")
    heading, *problems = ended.err.splitlines()
    assert heading == f"{path}: 3 problems"
    places = ("parallelism", "percentageOfNodesToScore", "profiles[0].plugins.score.enabled[0]")
    for place, line in zip(places, problems, strict=True):
        assert line.startswith(f"  - {place}")
    assert "ImageLocality" in problems[-1]


def test_a_missing_file_is_one_problem(shell: Shell, tmp_path: Path) -> None:
    path = str(tmp_path / "absent.yaml")
    ended = shell("config", "validate", path)
    assert ended.code == 1
    assert ended.err.splitlines() == [
        f"{path}: 1 problem",
        "  - cannot be read: No such file or directory",
    ]


def test_options_change_how_a_file_is_read(shell: Shell, tmp_path: Path) -> None:
    path = write(tmp_path, "profiles: [{schedulerName: default-scheduler}]\n")
    assert shell("config", "validate", path).code == 1
    ended = shell(
        "config", "validate", path, "--replace-default-scheduler",
        "--feature-gates", "StorageCapacityScoring=true,WatchList=true",
    )  # fmt: skip
    assert ended.code == 0
    assert ended.err == "warning: feature gate WatchList has no effect on scheduling\n"
    ended = shell("config", "validate", path, "--feature-gates", "Nope=true")
    assert (ended.code, "unrecognized feature gate: Nope" in ended.err) == (1, True)


def test_what_is_shown_loads_again_and_means_the_same(shell: Shell, tmp_path: Path) -> None:
    shown = shell("config", "show").out
    assert yaml.safe_load(shown)["profiles"][0]["schedulerName"] == "kubestow"
    path = tmp_path / "shown.yaml"
    path.write_text(shown)
    assert shell("config", "show", str(path)).out == shown


def test_the_upstream_form_has_nothing_of_ours(shell: Shell, tmp_path: Path) -> None:
    path = write(tmp_path, "kubestow: {seed: 7}\n")
    assert yaml.safe_load(shell("config", "show", path).out)["kubestow"]["seed"] == 7
    assert "kubestow" not in yaml.safe_load(shell("config", "show", path, "--upstream").out)


def test_a_bad_file_is_not_shown(shell: Shell, tmp_path: Path) -> None:
    ended = shell("config", "show", write(tmp_path, "parallelism: 0\n"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[0] == "Error: 1 problem with the configuration"


def test_the_gates_are_listed_one_on_each_line(shell: Shell) -> None:
    lines = shell("config", "gates").out.splitlines()
    assert lines[0].split() == ["GATE", "STAGE", "DEFAULT", "NEEDS"]
    assert [line.split()[0] for line in lines[1:]] == sorted(GATES)
    (gang,) = [line for line in lines if line.startswith("TopologyAwareWorkloadScheduling ")]
    assert gang.split()[1:] == ["Alpha", "false", "GenericWorkload"]


def test_the_committed_configuration_is_valid(shell: Shell, tmp_path: Path) -> None:
    (manifest,) = yaml.safe_load_all((ROOT / "manifests" / "config.yaml").read_text())
    path = tmp_path / "config.yaml"
    path.write_text(manifest["data"]["config.yaml"])
    assert shell("config", "validate", str(path)).err == ""


# ---------------------------------------------------------------------------------------- apiserver


def test_the_api_server_announces_itself_serves_and_stops(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kc.yaml"
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "scheduler", "apiserver", "--kubeconfig-out", str(kubeconfig)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split() for _ in range(3)]
        url = lines[0][-1]
        with urlopen(f"{url}/api/v1/namespaces", timeout=60) as response:
            assert json.load(response)["kind"] == "NamespaceList"
        assert lines[1] == ["control:", f"{url}/_kubestow/"]
        assert lines[2] == ["kubeconfig:", str(kubeconfig)]
        written = yaml.safe_load(kubeconfig.read_text())
        assert written["clusters"][0]["cluster"]["server"] == url
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--personality", "odd"], "'odd' is not one of 'stock', 'native'"),
        (["--feature-gates", "A"], 'invalid argument "A" for "--feature-gates"'),
        (["--feature-gates", "=true"], 'invalid argument "=true" for "--feature-gates"'),
        (["--port", "70000"], "70000 is not in the range"),
        (["--clock-rate", "-1"], "-1.0 is not in the range"),
    ],
)
def test_mistakes_of_the_api_server_are_named(
    shell: Shell, arguments: list[str], message: str
) -> None:
    ended = shell("apiserver", *arguments)
    assert ended.code == 2
    assert message in ended.err


def test_a_port_in_use_is_named(shell: Shell) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = shell("apiserver", "--port", str(port))
    assert ended.code == 1
    assert f"cannot serve on 127.0.0.1:{port}" in ended.err


@pytest.mark.parametrize("name", ["kubestow", "kube-scheduler"])
def test_ctrl_c_while_a_command_starts_is_quiet(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    run = main.COMMANDS["run"].load()
    monkeypatch.setattr(run, "invoke", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main([] if name == "kube-scheduler" else ["run"], name)
    assert ended.value.code == 130
    output = capsys.readouterr()
    assert not (output.out + output.err).strip()


def test_the_help_shows_that_version_needs_no_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--help"], "kubestow")
    assert ended.value.code == 0
    assert "--version [true|false|raw]" in capsys.readouterr().out


def test_config_schema_prints_the_published_schema(shell: Shell) -> None:
    published = (ROOT / "docs" / "kubestow.schema.json").read_text()
    assert shell("config", "schema").out == published


def test_config_schema_describes_plugins_of_ones_own(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = str(ROOT / "examples" / "scalar_filter")
    ended = shell("config", "schema", "--plugin-dir", folder, "--plugin", "app_limit:AppLimit")
    assert "limit" in json.loads(ended.out)["$defs"]["AppLimitArgs"]["properties"]
    ended = shell("config", "schema", "--plugin", "Nonsense")
    assert ended.code == 2
    assert 'there is no plugin "Nonsense"' in ended.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("explian a/b", "No such command 'explian'. Did you mean explain?"),
        ("Queue", "Did you mean queue?"),
        ("plan", "Did you mean simulate?"),
        ("validate x.yaml", "Did you mean config validate?"),
        ("pods", "Did you mean queue?"),
        ("doctor", "Did you mean check?"),
        ("help xyzzy", "No such command 'xyzzy'. There are: run, "),
        ("config validat x.yaml", "No such command 'validat'. Did you mean validate?"),
        ("quota shw", "Did you mean show?"),
        ("plugin xyzzy", "There are: "),
        ("xyzzy", "There are: run, demo, config, "),
    ],
)
def test_a_command_that_does_not_exist_gets_a_suggestion(
    shell: Shell, line: str, hint: str
) -> None:
    ended = shell(*line.split())
    assert ended.code == 2
    assert hint in ended.err


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help explain", "explain --help"),
        ("help plugin new", "plugin new --help"),
    ],
)
def test_help_is_a_word_as_well(shell: Shell, words: str, same: str) -> None:
    asked, expected = shell(*words.split()), shell(*same.split())
    assert (asked.code, asked.out) == (0, expected.out)


def test_a_simulation_without_a_copy_says_how_to_write_one(shell: Shell) -> None:
    ended = shell("simulate")
    assert ended.code == 2
    assert "kubectl get nodes,pods -A -o json" in ended.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("check --config p.yaml", "No such option '--config'. Name the configuration without an"),
        ("whatif web --cpu 2", "Write --set cpu=2."),
        ("bundle out.tgz", "(out.tgz). The file to write is -o FILE."),
        ("record --seconds=5", "How long is --for, such as --for 30s."),
        ("queue web-0", "explained by kubestow explain POD"),
        ("explain -l app=web", "Pods are not chosen by labels"),
        ("run profile.yaml", 'got ["profile.yaml"]; the configuration is named by --config'),
        ("queue --nonsense", "No such option '--nonsense'."),
    ],
)
def test_habits_of_other_programs_are_corrected(shell: Shell, line: str, hint: str) -> None:
    ended = shell(*line.split())
    assert ended.code == 2
    assert hint in ended.err


@pytest.mark.parametrize(("name", "option"), MEANT)
def test_a_corrected_option_does_not_exist(name: str, option: str) -> None:
    with click.Context(program) as context:
        command = program.get_command(context, name)
    assert command is not None
    assert option not in {each for parameter in command.params for each in parameter.opts}
