"""What stands in the way of a head, in one line."""

from polykv_core.errors import PolyKvError


def told(bad: BaseException) -> str:
    """What went wrong; of what this package did not foresee, its kind as well."""
    text = " ".join(str(bad).split())
    if isinstance(bad, PolyKvError):
        return text
    if isinstance(bad, MemoryError):
        return "there is not enough memory for it; use fewer workers" + (f" ({text})" if text else "")
    if isinstance(bad, OSError) and bad.strerror:
        return f"cannot read it: {bad.strerror}"
    return f"{type(bad).__name__}: {text}" if text else type(bad).__name__
