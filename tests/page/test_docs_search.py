"""The search of the docs site: its own worker and index answer questions of new users.

`make docs` builds the site. A question counts as answered when a right page is among the first
three results.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.page import docs_site
from tests.page.chromium import Page
from tests.page.conftest import REQUIRED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

QUESTIONS: Final = {
    "gpu": ("dynamic-resources",),
    "bin packing": ("recipes",),
    "why is my pod pending": ("tutorials/explain", "explain", "troubleshooting"),
    "priority class": ("recipes",),
    "preemption": ("recipes",),
    "install": ("install", "operations", "tutorials/operate"),
    "helm chart": ("install",),
    "write a plugin": ("plugins", "tutorials/extend"),
    "test a plugin": ("plugins", "tutorials/extend"),
    "gang scheduling": ("gang-scheduling",),
    "pod group": ("gang-scheduling",),
    "quota": ("deferred-quota",),
    "metrics": ("monitoring",),
    "prometheus alert": ("monitoring",),
    "grafana dashboard": ("monitoring",),
    "leader election": ("operations",),
    "upgrade": ("install",),
    "topology spread": ("topology-spread-fallback",),
    "autoscaler": ("node-provisioning-bridge",),
    "how many nodes do I need": ("tutorials/capacity", "simulate"),
    "notebook": ("tutorials/compare-policies", "simulate"),
    "permissions": ("operations",),
    "feature gates": ("configuration",),
    "extender": ("configuration",),
    "difference to kube-scheduler": ("differences",),
    "scheduler framework go plugin": ("coming-from-go",),
    "replay a decision": ("bundles",),
    "taints": ("troubleshooting", "explain", "tutorials/explain"),
    "memory usage": ("operations", "performance-scaling"),
    "simulate capacity": ("tutorials/capacity", "simulate"),
    "insufficient cpu": ("explain", "tutorials/explain"),
    "pod stuck": ("explain", "tutorials/explain", "troubleshooting"),
    "how to uninstall": ("install",),
    "multiple schedulers": ("sharing-a-cluster",),
    "replace default scheduler": ("launchers",),
    "evict pods": ("sharing-a-cluster",),
    "run on my laptop": ("install",),
    "build docker image": ("install", "tutorials/operate", "operations"),
    "high availability": ("operations",),
    "rbac forbidden": ("troubleshooting", "operations"),
    "pvc": ("explain",),
    "node affinity": ("explain",),
}
"""The pages that answer a question, any of which is right."""

FIRST: Final = 3

ASK: Final = """
(async (questions) => {
  const settings = JSON.parse(document.getElementById("__config").textContent);
  const index = await (await fetch("search/search_index.json")).json();
  const worker = new Worker(settings.search);
  const reply = (message) => new Promise((resolve) => {
    worker.onmessage = (event) => resolve(event.data.data);
    worker.postMessage(message);
  });
  await reply({type: 0, data: {...index, options: {suggest: true}}});
  const found = {};
  for (const question of questions) {
    const {items} = await reply({type: 2, data: question});
    found[question] = items.map((group) => group[0].location);
  }
  return found;
})(%s)
"""


@pytest_asyncio.fixture(loop_scope="module")
async def site(page: Page) -> AsyncIterator[Page]:
    """Open the site; skips without one, unless a browser is required."""
    if not docs_site.built():
        message = "there is no docs site; make docs builds it"
        pytest.fail(message) if REQUIRED else pytest.skip(message)
    async with docs_site.served() as address:
        await page.open(address)
        yield page


async def test_guides_answer_the_questions_of_new_users(site: Page) -> None:
    found = await site.evaluate(ASK % json.dumps(list(QUESTIONS)))
    missed = {}
    for question, right in QUESTIONS.items():
        pages = list(dict.fromkeys(re.split("/?#|/$", each)[0] for each in found[question]))
        if not set(right) & set(pages[:FIRST]):
            missed[question] = pages[:FIRST]
    assert len(missed) <= 2, missed


async def test_the_landing_page_leads_to_all_paths_and_fits_a_phone(site: Page) -> None:
    text = await site.text()
    for each in ("Install", "Operate", "Explain", "Simulate", "Extend", "helm install"):
        assert each in text
    for width in (390, 1280):
        await site.size(width, 800)
        assert await site.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not site.problems
