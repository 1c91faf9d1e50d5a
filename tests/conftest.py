"""Settings of the whole suite: property tests draw the same examples on every run, on every machine."""

import itertools
import os

import pytest
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


def pytest_sessionfinish(session):
    """Where POLYKV_SKIP_NOTHING is set, whatever a test may need is there, and one that is skipped has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("POLYKV_SKIP_NOTHING"):
        for report in skipped:
            reporter.write_line(f"must not be skipped here: {report.nodeid}: {report.longrepr[2]}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_HISTORIES = itertools.count()


@pytest.fixture(autouse=True)
def own_history(monkeypatch, tmp_path_factory):
    """A history of the test's own, not there yet: no test reads or writes that of whoever runs it."""
    path = tmp_path_factory.getbasetemp() / f"history-{next(_HISTORIES)}.sqlite"
    monkeypatch.setenv("POLYKV_STORE", str(path))
    monkeypatch.setenv("POLYKV_SWEEPS", str(path.with_suffix(".sweeps")))
    return path


@pytest.fixture
def history(own_history):
    """Where the test's history is, or will be."""
    return own_history


@pytest.fixture
def patient(monkeypatch):
    """Pages wait for every replay, so that no test depends on how long one takes."""
    from pages.ui import jobs

    monkeypatch.setattr(jobs, "PATIENCE", None)


@pytest.fixture
def app(patient):  # noqa: ARG001 - it is there for what it changes
    """The dashboard in a session of its own, with empty caches."""
    import streamlit as st
    from dashboard import new_session

    st.cache_resource.clear()
    return new_session()


@pytest.fixture
def measured(monkeypatch):
    """The ks of every measurement that the dashboard makes."""
    from pages.ui import replayed

    calls, measure = [], replayed.measure

    def counted(fixture, ks, on_query, *, options):
        calls.append(ks)
        return measure(fixture, ks, on_query, options=options)

    monkeypatch.setattr(replayed, "measure", counted)
    return calls
