"""What every test shares: how Hypothesis searches, and the fixtures of the real control plane.

Fixtures of one subject belong to the conftest of its folder, so that reading a test needs two files
at most.

Hypothesis profiles, chosen by `HYPOTHESIS_PROFILE`:

- `ci` (the default): the same examples on every run and no deadline, so that a red run is red again
  on the next machine and a slow machine is not an error;
- `explore`: new examples on every run and many more of them, for a search by hand.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.envtest.fixtures"]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    # Generation is timed by the wall clock; a loaded machine would fail it at random.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
