"""Kubeconfig files as clouds and people make them are read as kubectl reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.client.configuration import ClientConfiguration, load_configuration
from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.http.request import HeaderBlock

V1 = "client.authentication.k8s.io/v1"


def document(
    user: Any = None, cluster: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "http://one:8080", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        **more,
    }


def written(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


async def load(path: str | None = None, **more: Any) -> ClientConfiguration:
    return await load_configuration(kubeconfig=path, **{"environ": {}, **more})


async def read(folder: Path, content: Any) -> ClientConfiguration:
    return await load(written(folder / "config", content))


async def refusal(folder: Path, content: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await read(folder, content)
    return str(caught.value)


# -- files and paths -----------------------------------------------------------------------------


async def test_an_explicit_path_is_one_path(tmp_path: Path) -> None:
    path = tmp_path / "arn:aws:eks:eu-west-1:1:cluster.yaml"
    found = await load(written(path, document({"token": "t"})))
    assert await found.authorization() == "Bearer t"


async def test_paths_are_relative_to_the_folder_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "tok").write_text("t\n")
    written(tmp_path / "real" / "config", document({"tokenFile": "tok"}))
    (tmp_path / "link" / "config").symlink_to("../real/config")
    found = await load(str(tmp_path / "link" / "config"))
    assert await found.authorization() == "Bearer t"


async def test_paths_are_relative_to_the_file_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tok").write_text("t\n")
    written(tmp_path / "sub" / "users", {"users": [{"name": "u", "user": {"tokenFile": "tok"}}]})
    first = written(tmp_path / "first", {**document(), "users": None})
    monkeypatch.chdir(tmp_path)
    found = await load(environ={"KUBECONFIG": f"{first}::missing:sub/users"})
    assert await found.authorization() == "Bearer t"


async def test_the_first_of_several_files_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "a", {"users": [{"name": "u", "user": {"token": "first"}}]})
    second = written(tmp_path / "b", document({"token": "second"}))
    third = written(tmp_path / "c", document({"token": "third"}) | {"current-context": "y"})
    found = await load(environ={"KUBECONFIG": f"{first}:{second}:{third}"})
    assert await found.authorization() == "Bearer first"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps])
async def test_every_encoding_is_read(tmp_path: Path, encoding: str, dump: Any) -> None:
    path = tmp_path / "config"
    path.write_bytes(dump(document({"token": "t"})).replace("\n", "\r\n").encode(encoding))
    assert await (await load(str(path))).authorization() == "Bearer t"


# -- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("127.0.0.1:18300", "http://127.0.0.1:18300"),
        ("localhost", "http://localhost"),
        ("http://one:8080/", "http://one:8080"),
        ("https://rancher/k8s/clusters/c-1?x=1#y", "https://rancher/k8s/clusters/c-1"),
        ("https://[::1]:6443", "https://[::1]:6443"),
    ],
)
async def test_a_server_is_an_address_or_a_url(tmp_path: Path, server: str, url: str) -> None:
    assert (await read(tmp_path, document(cluster={"server": server}))).server == url
    assert (await load(master=server, environ={"HOME": "/nowhere"})).server == url


async def test_null_means_absent(tmp_path: Path) -> None:
    keys = ("client-certificate", "client-key-data", "as", "as-groups", "username", "auth-provider")
    user = {"token": "t", **dict.fromkeys(keys), "extensions": None}
    cluster = dict.fromkeys(("proxy-url", "tls-server-name", "insecure-skip-tls-verify"))
    found = await read(tmp_path, document(user, cluster, extensions=None, preferences=None))
    assert await found.authorization() == "Bearer t"
    assert (found.proxy, found.server_hostname, found.impersonation) == (None, None, ())


async def test_null_in_a_plugin_means_absent(tmp_path: Path) -> None:
    credential = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}}
    (tmp_path / "plug").write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    (tmp_path / "plug").chmod(0o755)
    plugin = {"apiVersion": V1, "command": "./plug", "interactiveMode": "Never", "args": None}
    plugin |= {"env": None, "installHint": None, "provideClusterInfo": None}
    found = await read(tmp_path, document({"exec": plugin}))
    assert await found.authorization() == "Bearer t"


@pytest.mark.parametrize(
    "user",
    [
        {"token": "t", "impersonate-me-not": True},
        {"token": "t", "odd": {"as": "x"}},
    ],
)
async def test_unknown_keys_are_ignored(tmp_path: Path, user: dict[str, Any]) -> None:
    found = await read(tmp_path, document(user, {"api-version": "v1"}, odd=[1]))
    assert await found.authorization() == "Bearer t"


@pytest.mark.parametrize(
    ("user", "cluster", "text"),
    [
        ({"as-group": ["x"]}, {}, "user 'u': unknown key 'as-group'; did you mean as-groups?"),
        ({"as_groups": ["x"]}, {}, "did you mean as-groups?"),
        ({"asUid": "x"}, {}, "did you mean as-uid?"),
        ({"tokenfile": "x"}, {}, "did you mean tokenFile?"),
        ({"token-file": "x"}, {}, "did you mean tokenFile?"),
        ({"Token": "x"}, {}, "did you mean token?"),
        ({}, {"proxy_url": "x"}, "cluster 'c': unknown key 'proxy_url'; did you mean proxy-url?"),
        ({}, {"insecure-skip-tls-verfy": True}, "did you mean insecure-skip-tls-verify?"),
    ],
)
async def test_a_slip_is_refused(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], text: str
) -> None:
    assert text in await refusal(tmp_path, document(user, cluster))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (document({"token": 1}), "user 'u': Expected `str`, got `int` - at `$.token`"),
        (document({"as": "x", "as-groups": "y"}), "got `str` - at `$.as-groups`"),
        (document([1]), "Expected `object`, got `array` - at `$.users[0].user`"),
        (document({"as-groups": ["x"]}), "as-uid, as-groups and as-user-extra need a user"),
        (document({"as-user-extra": {"k": ["v"]}}), "need a user to act as"),
        (document({"as": "a\nb"}), "'a\\nb' cannot be in a header"),
        (
            document({"as": "a", "as-groups": ["x\r\nImpersonate-Group: y"]}),
            "cannot be in a header",
        ),
        (document({"token": "t", "password": "p"}), "a token and a password; only one"),
        (document({"exec": {}, "auth-provider": {}}), "exec and auth-provider; only one"),
        (document(cluster={"proxy-url": "127.0.0.1:1"}), "proxy-url has no scheme: give the URL"),
        (document(cluster={"proxy-url": "ftp://u:p@x"}), "proxy-url ftp:// is not supported"),
        (document(cluster={"server": ""}), "the cluster of context 'x' has no server"),
        (document(users=[{"name": "u"}, {"name": "u"}]), "users has two entries named 'u'"),
        (document(contexts=[{"name": "x", "context": {"user": "u"}}]), "clusters has no entry"),
        ("apiVersion: v1\nclusters: &a [*a]\n", "line 2: not a usable kubeconfig file: the alias"),
        ("- 1\n", "not a usable kubeconfig file: Expected `object`, got `array`"),
        ("clusters: 3\n", "Expected `array`, got `int` - at `$.clusters`"),
        ("# nothing\n", "the file is empty"),
    ],
)
async def test_a_file_that_makes_no_sense_is_refused(
    tmp_path: Path, content: Any, text: str
) -> None:
    found = await refusal(tmp_path, content)
    assert text in found
    assert found.startswith(f"kubeconfig {tmp_path}/config: ")
    assert "u:p@x" not in found


# -- acting as another user ----------------------------------------------------------------------


async def test_the_headers_of_another_user(tmp_path: Path) -> None:
    user = {
        "as": "system:serviceaccount:a:b",
        "as-uid": "7",
        "as-groups": ["one", "zwei ö"],
        "as-user-extra": {"scopes": ["view", "dev"], "Example.com/a%b": ["1"]},
    }
    found = await read(tmp_path, document(user))
    assert found.impersonation == (
        ("Impersonate-User", "system:serviceaccount:a:b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "one"),
        ("Impersonate-Group", "zwei ö"),
        ("Impersonate-Extra-Example.com%2Fa%25b", "1"),
        ("Impersonate-Extra-scopes", "view"),
        ("Impersonate-Extra-scopes", "dev"),
    )
    lines = HeaderBlock({"Accept": "x"}, found.impersonation).adding({"Content-Type": "y"}).lines
    assert lines.count(b"Impersonate-Group: ") == 2
    assert "Impersonate-Group: zwei ö\r\n".encode() in lines
