"""One Hypothesis profile for every suite: the same examples on every machine, no clock, nothing kept between runs."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

# A deadline would be a wall-clock assertion, and so would "too slow". A database would make a run depend on the last.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],  # explaining traces every line: minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("search", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("AFERE_HYPOTHESIS", "ci"))
