"""Finding binaries and deciding what to build; nothing is compiled here."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.control_plane import build
from devtools.control_plane.binaries import (
    BUILD_DIRECTORY,
    OPTIONAL,
    REQUIRED,
    Binaries,
    BinariesMissingError,
    find_directory,
)
from devtools.go_programs import BuildError, Program
from tests.e2e import build as e2e_build
from tests.envtest import fixtures
from tests.thirdparty import build as thirdparty_build


def fill(directory: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (directory / name).write_text("")
        (directory / name).chmod(0o755)
    return directory


def fake_go(directory: Path) -> None:
    """Write a `go` that notes its calls, and builds empty programs as Go names them."""
    fake = fill(directory, ("go",)) / "go"
    fake.write_text(f"""#!/bin/sh
echo "$(basename $PWD) $1 $2" >>{directory}/calls
[ "$1" = mod ] && exit
[ "$1" = test ] && suffix=.test
while [ "$1" != -o ]; do shift; done
folder=$2
shift 2
for package; do
    file=$folder$(basename "${{package%/v[0-9]}}")$suffix
    : >"$file"
    chmod +x "$file"
done
""")


def test_kubebuilder_assets_take_precedence_over_built_binaries(tmp_path: Path) -> None:
    assert find_directory({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path
    assert find_directory({"KUBEBUILDER_ASSETS": ""}) == BUILD_DIRECTORY
    assert find_directory({}) == BUILD_DIRECTORY


def test_a_set_without_scheduler_is_enough_until_the_scheduler_is_needed(tmp_path: Path) -> None:
    binaries = Binaries.in_directory(fill(tmp_path, REQUIRED))
    assert (binaries.kube_scheduler, binaries.kube_controller_manager) == (None, None)
    with pytest.raises(
        BinariesMissingError, match=r"no kube-scheduler in .* where KUBEBUILDER_ASSETS points"
    ):
        binaries.require("kube-scheduler")


def test_a_full_set_has_every_command(tmp_path: Path) -> None:
    binaries = Binaries.in_directory(fill(tmp_path, REQUIRED + OPTIONAL))
    assert (
        binaries.kube_scheduler == binaries.require("kube-scheduler") == tmp_path / "kube-scheduler"
    )


def test_a_missing_binary_is_named(tmp_path: Path) -> None:
    fill(tmp_path, ("etcd", "kubectl"))
    with pytest.raises(BinariesMissingError, match=r"^no kube-apiserver in "):
        Binaries.find({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_a_file_that_is_not_executable_does_not_count(tmp_path: Path) -> None:
    (fill(tmp_path, REQUIRED) / "etcd").chmod(0o644)
    with pytest.raises(BinariesMissingError, match="no etcd in"):
        Binaries.in_directory(tmp_path)


def test_an_unknown_command_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown command 'kubelet'"):
        Binaries.in_directory(fill(tmp_path, REQUIRED)).require("kubelet")


@pytest.mark.parametrize(
    ("required", "outcome"),
    [("1", pytest.fail.Exception), ("", pytest.skip.Exception)],
    ids=["required", "optional"],
)
def test_missing_binaries_skip_a_test_unless_they_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("KUBESTOW_REQUIRE_ENVTEST", required)
    with pytest.raises(outcome, match="no etcd, kube-apiserver, kubectl in"):
        fixtures.find_binaries()


def test_the_built_version_is_the_one_that_go_mod_requires() -> None:
    go_mod = (build.MODULE_DIRECTORY / "go.mod").read_text()
    version = build.kubernetes_version(go_mod)
    assert version.startswith("v1.37.")
    assert f"k8s.io/api => k8s.io/api v0.{version.removeprefix('v1.')}\n" in go_mod
    assert (
        f"-X k8s.io/component-base/version.gitVersion={version}" in build.build_flags(version)[-1]
    )


def test_a_go_mod_without_a_release_is_rejected() -> None:
    with pytest.raises(BuildError, match=r"does not require k8s\.io/kubernetes at a release"):
        build.kubernetes_version("require k8s.io/api v0.37.2")


def test_every_package_is_a_tool_of_the_module() -> None:
    go_mod = (build.MODULE_DIRECTORY / "go.mod").read_text()
    tools = go_mod.partition("tool (")[2].partition(")")[0].split()
    assert sorted(tools) == sorted(build.PACKAGES.values())
    assert set(build.PACKAGES) == {*REQUIRED, *OPTIONAL}


def test_the_stamp_depends_on_command_and_flags() -> None:
    def stamp(package: str, flag: str) -> str:
        return Program("any", package, build.MODULE_DIRECTORY, (flag,)).stamp()

    stamps = {stamp("etcd", "-a"), stamp("etcd", "-b"), stamp("kubectl", "-a")}
    assert len(stamps) == 3
    assert stamp("etcd", "-a") in stamps


def test_a_missing_go_is_reported_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="no `go` on PATH: install Go, or set KUBEBUILDER_ASSETS"):
        build.build(tmp_path / "bin")


def test_an_unreachable_proxy_is_reported_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fill(tmp_path, ("go",)) / "go"
    fake.write_text("#!/bin/sh\necho 'dial tcp: connection refused' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(BuildError, match=r"(?s)connection refused.*go env GOPROXY"):
        build.build(tmp_path / "bin")


def test_current_binaries_are_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_go(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    build.build(tmp_path / "bin")
    assert set(build.PACKAGES) <= {path.name for path in (tmp_path / "bin").iterdir()}
    (tmp_path / "bin" / ".kubectl.stamp").write_text("of an older version")
    capsys.readouterr()
    build.build(tmp_path / "bin")
    assert "building kubectl\n" in capsys.readouterr().err
    build.build(tmp_path / "bin")
    assert "up to date" in capsys.readouterr().err


def test_the_specs_are_built_from_the_release_of_the_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = {
        build.kubernetes_version((module.directory / "go.mod").read_text())
        for module in (build.CONTROL_PLANE, e2e_build.MODULE)
    }
    assert len(versions) == 1

    fake_go(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    build.build(tmp_path / "bin", e2e_build.MODULE)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["e2e mod download", "e2e test -c"]
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == [
        ".e2e.test.stamp",
        ".lock",
        "e2e.test",
    ]


def test_stamps_differ_between_modules() -> None:
    stamps = {
        Program("any", "package", module.directory).stamp()
        for module in (build.CONTROL_PLANE, e2e_build.MODULE)
    }
    assert len(stamps) == 2


def compiler_flags(program: Program, pattern: str) -> str:
    """Return the compiler's flags for packages that match `pattern`; the last that match apply."""
    options = [flag.split("=", 2)[1:] for flag in program.flags if flag.startswith("-gcflags=")]
    return [flags for each, flags in options if each in ("all", pattern)][-1]


def test_packages_that_several_programs_have_are_compiled_alike() -> None:
    flags = build.build_flags("v1.37.0")
    of_kubernetes = [
        program
        for module in (build.CONTROL_PLANE, e2e_build.MODULE)
        for program in module.programs(flags)
    ]
    programs = [*of_kubernetes, *thirdparty_build.programs().values()]
    assert len({compiler_flags(program, "std") for program in programs}) == 1
    assert len({compiler_flags(program, "k8s.io/api/...") for program in of_kubernetes}) == 1
