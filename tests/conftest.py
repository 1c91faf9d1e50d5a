"""Settings of the whole suite: property tests draw the same examples on every run, on every machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    # Training a codebook on the first example makes it slower than the others; that says nothing about the test.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")
