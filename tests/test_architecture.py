"""The house stays in order: the engine knows no dashboard, and no stage imports a later one."""

import ast
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import fresh_python

import polykv_core

PACKAGE = Path(polykv_core.__file__).parent
# A module imports only modules that stand before it. A new module is placed here, at the stage where it belongs.
ORDER = [
    "errors",
    "version",
    "arrays",
    "checks",
    "jsontext",
    "records",
    "canonical",
    "metrics",
    "config",
    "fixture",
    "packs.containers",
    "packs.pack",
    "packs.write",
    "packs",
    "loading",
    "capture",
    "capture.request",
    "capture.projection",
    "capture.recording",
    "capture.model",
    "capture.checking",
    "capture.heads",
    "streams",
    "rotation",
    "codecs.base",
    "codecs.exact",
    "codecs.codebook",
    "codecs.kept_codebooks",
    "codecs.fib_quant",
    "codecs.turbo_quant",
    "codecs",
    "options",
    "settings",
    "tier",
    "shell",
    "pool",
    "footprint",
    "model_case",
    "synthetic",
    "attention",
    "statistics",
    "scale",
    "health",
    "measurement",
    "measure",
    "gates",
    "scores",
    "explain",
    "advice",
    "uncertainty",
    "tuning",
    "provenance",
    "explained",
    "receipt",
    "exports",
    "replay",
    "differences",
    "verify",
    "compare",
    "",  # the package itself, whose names are the public ones
    "files",
    "terminal",
    "kept",
    "history.faults",
    "history.schema",
    "history.runs",
    "history.store",
    "history",
    "words",
    "judged",
    "ladder",
    "axis",
    "k_curve",
    "sweep",
    "sweep.faults",
    "sweep.folder",
    "sweep.items",
    "sweep.losses",
    "sweep.sources",
    "sweep.result",
    "sweep.work",
    "sweep.cache",
    "sweep.verdict",
    "sweep.maps",
    "sweep.pareto",
    "sweep.ledger",
    "sweep.worker",
    "sweep.local",
    "sweep.executors",
    "sweep.run",
    "view",
    "why",
    "report.svg",
    "report.inline",
    "report.outcome",
    "report.gate_mark",
    "report.chart",
    "report.bars",
    "report.rows",
    "report.page",
    "report.html",
    "report.junit",
    "report.markdown",
    "report",
    "receipt_file",
    "sweep_report",
    "tables",
    "run_tables",
    "sweep_tables",
    "program",
    "launch",
    "commands.shared",
    "commands.options",
    "commands.stores",
    "commands.baseline",
    "commands.outputs",
    "commands.convert",
    "commands.capture",
    "commands.explain",
    "commands.replay",
    "commands.splits",
    "commands.sweep",
    "commands.history",
    "commands.verify",
    "commands",
    "cli",
]
DASHBOARD = ("streamlit", "plotly", "pandas", "app", "pages")


def module_name(path):
    """`codecs.base` for polykv_core/codecs/base.py, `codecs` for its package, and "" for polykv_core."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path):
    """The full name of everything a module imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}, line {node.lineno}: a relative import; write the whole name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(name):
    """The modules of this package that a module imports."""
    for full in imported(MODULES[name]):
        package, _, inner = full.partition(".")
        if package == "polykv_core":
            # A name in a module, unless it is a module itself.
            yield inner if inner in MODULES else inner.rpartition(".")[0]


def test_every_module_has_its_place():
    """The order above names each module once, and no other."""
    assert sorted(ORDER) == sorted(MODULES)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_no_later_one(name):
    """Along the way of the data, from errors to the command line."""
    allowed = ORDER[: ORDER.index(name)]
    # A package's own __init__ runs before its modules, without their asking.
    later = [other for other in imports_of(name) if other not in allowed]
    assert later == []


def test_no_modules_import_each_other():
    """There is an order at all (a cycle would raise)."""
    graph = {name: set(imports_of(name)) for name in MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)
    assert graph["replay"] >= {"measure", "receipt", "config", "fixture"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_engine_imports_no_dashboard(name):
    """Nor pandas, nor scipy.stats, which takes a second to import."""
    for full in imported(MODULES[name]):
        assert full.split(".")[0] not in DASHBOARD
        assert not full.startswith("scipy.stats")


def importable():
    """The modules that can be imported here: those of capturing only with its extra, but for what it is asked."""
    with_torch = find_spec("torch") is not None
    return [name for name in MODULES if with_torch or not name.startswith("capture.") or name == "capture.request"]


def test_importing_the_engine_loads_no_dashboard():
    """Not by way of another library either; the command line included."""
    modules = ", ".join(f"polykv_core.{name}".rstrip(".") for name in importable())
    loaded = fresh_python(f"""
        import sys
        import {modules}
        print(*sorted(sys.modules), sep="\\n")
    """).split()
    assert {f"polykv_core.{name}".rstrip(".") for name in importable()} <= set(loaded)
    assert [name for name in loaded if name.split(".")[0] in DASHBOARD or name == "scipy.stats"] == []
