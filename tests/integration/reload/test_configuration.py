"""Changes of the configuration file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from devtools.embedded_service import BindLog
from scheduler.reload.takeover import Takeover
from tests.integration.reload.running import HEADER, PROFILE, Running, running, until

ONLY_LABELLED = (
    PROFILE
    + """\
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: chosen, operator: Exists}]
"""
)
TWO_PROFILES = PROFILE + "- schedulerName: second\n"
MANY_MISTAKES = HEADER + "parallelism: no\nprofiles:\n- schedulerName: kubestow\n  plugin: {}\n"


async def test_next_pods_follow_the_new_configuration(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.node("plain")
        world.pod("first")
        await until(lambda: world.node_of("first"))
        world.node("labelled", chosen="yes")
        assert await world.reload(ONLY_LABELLED) == "success"
        for number in range(5):
            world.pod(f"next-{number}")
        await until(lambda: not world.unbound())
        assert {world.node_of(f"next-{number}") for number in range(5)} == {"labelled"}
        assert "generation 2" in await world.event("ConfigurationReloaded")


async def test_waiting_pod_is_scheduled_when_its_configuration_lets_it_pass(tmp_path: Path) -> None:
    async with running(tmp_path, ONLY_LABELLED) as world:
        world.node("plain")
        world.pod("waiting")
        await until(lambda: world.sample("scheduler_schedule_attempts_total"))
        assert await world.reload(PROFILE) == "success"
        await until(lambda: world.node_of("waiting") == "plain")


async def test_invalid_file_is_refused_with_all_its_errors(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.node("plain")
        assert await world.reload(MANY_MISTAKES) == "invalid"
        for path in ("parallelism", "profiles[0].plugin"):
            assert path in world.problems()
            assert path in await world.event("ConfigurationInvalid")
        assert world.reloader.configz()["kubestow"]["generation"] == 1
        assert world.reloader.configz()["kubestow"]["refused"]["result"] == "invalid"
        assert world.sample("kubestow_config_generation") == 1
        assert world.sample("kubestow_config_last_reload_successful") == 0
        world.pod("next")
        await until(lambda: world.node_of("next"))
        assert await world.reload(PROFILE) == "unchanged"
        assert world.sample("kubestow_config_last_reload_successful") == 1
        assert "refused" not in world.reloader.configz()["kubestow"]


async def test_key_that_needs_a_restart_is_named_and_nothing_is_taken_over(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        text = ONLY_LABELLED + "delayCacheUntilActive: true\nkubestow: {bindConcurrency: 7}\n"
        assert await world.reload(text) == "restart_required"
        assert world.problems().splitlines() == [
            "delayCacheUntilActive needs a restart",
            "kubestow.bindConcurrency needs a restart",
        ]
        assert "bindConcurrency" in await world.event("RestartRequired")
        shown = world.reloader.configz()["componentconfig"]
        assert shown["delayCacheUntilActive"] is False


async def test_key_without_effect_is_taken_over_and_shown(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert await world.reload(f"{PROFILE}parallelism: 7\n") == "success"
        assert world.reloader.configz()["componentconfig"]["parallelism"] == 7
        assert world.reloader.configz()["kubestow"]["generation"] == 2
        assert await world.reload(f"{PROFILE}parallelism: 7\n\n") == "unchanged"


async def test_unexpected_error_is_told_and_costs_this_change_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as world:
        world.node("plain")
        with monkeypatch.context() as patched, capture_logs() as logs:
            patched.setattr(Takeover, "deliver_known", lambda *_: 1 / 0)
            world.config.write_text(ONLY_LABELLED)
            assert await looked(world) == 1
            # The same files are not tried again.
            assert await looked(world) == 1
        errors = [each["event"] for each in logs if each["log_level"] == "error"]
        # On a slow machine.
        assert [each for each in errors if each != "event loop is blocked"] == [
            "reload failed unexpectedly",
            "configuration not taken over, the one in force stays",
        ]
        assert "ZeroDivisionError" in world.problems()
        assert "ZeroDivisionError" in await world.event("ReloadFailed")
        assert world.reloader.configz()["kubestow"]["refused"]["result"] == "failed"
        assert world.sample("kubestow_config_last_reload_successful") == 0
        assert world.sample("kubestow_config_reloads_total") == 1
        world.pod("next")
        await until(lambda: world.node_of("next") == "plain")
        assert await world.reload(TWO_PROFILES) == "success"


async def test_pods_of_a_new_profile_that_are_known_already_are_scheduled(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.node("plain")
        for number in range(3):
            world.pod(f"early-{number}", scheduler="second")
        world.pod("ours")
        await until(lambda: world.node_of("ours"))
        assert await world.reload(TWO_PROFILES) == "success"
        await until(lambda: not world.unbound())


@pytest.mark.slow
async def test_pods_of_a_profile_that_is_gone_are_left_to_others(tmp_path: Path) -> None:
    async with running(tmp_path, TWO_PROFILES) as world:
        world.pod("theirs", scheduler="second")
        world.pod("ours")
        await until(lambda: world.sample("scheduler_schedule_attempts_total") >= 2)
        assert await world.reload(PROFILE) == "success"
        world.node("plain")
        await until(lambda: world.node_of("ours"))
        assert world.unbound() == ["theirs"]
        assert await world.reload(TWO_PROFILES) == "success"
        await until(lambda: not world.unbound())


async def test_swapped_link_of_a_config_map_is_taken_over_by_the_watch(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        mount = tmp_path / "mount"
        versions = [mount / "..v1", mount / "..v2"]
        for folder, text in zip(versions, (PROFILE, TWO_PROFILES), strict=True):
            folder.mkdir(parents=True)
            (folder / "config.yaml").write_text(text)
        (mount / "..data").symlink_to(versions[0].name)
        world.config.unlink()
        world.config.symlink_to(mount / "..data" / "config.yaml")
        assert await looked(world) == 1, "the same content"
        (mount / "..tmp").symlink_to(versions[1].name)
        (mount / "..tmp").replace(mount / "..data")
        assert await looked(world) == 2


async def test_file_that_still_changes_is_not_read_yet(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        for text in ("", HEADER, MANY_MISTAKES):
            world.config.write_text(text)
            await world.reloader.check()
        world.config.write_text(TWO_PROFILES)
        assert await looked(world) == 2
        assert world.sample("kubestow_config_reloads_total") == 1


async def test_file_that_is_gone_is_an_error_and_its_return_is_taken_over(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.config.unlink()
        assert await looked(world) == 1
        assert "No such file" in world.problems()
        world.config.write_text(TWO_PROFILES)
        assert await looked(world) == 2


@pytest.mark.slow
async def test_reloads_under_load_lose_no_pod_and_bind_none_twice(tmp_path: Path) -> None:
    texts = [PROFILE, ONLY_LABELLED, TWO_PROFILES, MANY_MISTAKES]
    async with running(tmp_path) as world:
        bound = BindLog(world.cluster)
        for number in range(3):
            world.node(f"n{number}", chosen="yes")
        pods = 0
        for reload in range(40):
            for _ in range(5):
                world.pod(f"p{pods}", scheduler="second" if pods % 7 == 0 else "kubestow")
                pods += 1
            await world.reload(texts[reload % 4])
            await asyncio.sleep(0)
            world.validate()
        assert await world.reload(TWO_PROFILES) in ("success", "unchanged")
        await until(lambda: not world.unbound())
        assert sorted(name for name, _ in bound.entries) == sorted(f"p{n}" for n in range(pods))


async def looked(world: Running) -> int:
    """Let the watch look twice, as it does in four seconds; return the generation."""
    await world.reloader.check()
    await world.reloader.check()
    return world.reloader.generation
