"""The history: runs kept in one SQLite file, to be found, compared and judged again later."""

from polykv_core.history.runs import Run, RunQuery, RunSummary
from polykv_core.history.schema import default_path, exists
from polykv_core.history.store import Store, open_store

__all__ = ["Run", "RunQuery", "RunSummary", "Store", "default_path", "exists", "open_store"]
