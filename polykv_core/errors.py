"""One tree of exceptions: catch PolyKvError and you have caught everything this package raises on purpose."""


class PolyKvError(Exception):
    """Base of every error of this package. Its text is one sentence for a person: place, value, what to do."""


class FixtureError(PolyKvError):
    """A captured fixture that cannot be read, or whose parts do not fit together."""


class CaseError(PolyKvError):
    """A model-replay case (file, queries) that cannot be read, or whose parts do not fit together."""


class ConfigError(PolyKvError):
    """Candidate ks or gate thresholds that mean nothing, or that were not measured."""


class CacheError(PolyKvError):
    """Rows, layers or heads that do not fit the compressed cache's shape."""


class CodecError(PolyKvError):
    """A head size or a row that a codec cannot hold."""


class ReceiptError(PolyKvError):
    """A receipt that cannot be read, or must not be written because a number in it is not finite."""


class CompareError(PolyKvError):
    """Two runs that must not be compared."""


class SweepError(PolyKvError):
    """A sweep over many heads that cannot start, or whose heads do not go together."""


class StoreError(PolyKvError):
    """A history that cannot be opened, read or written, or a run that it does not take or does not have."""


class CaptureError(PolyKvError):
    """A model, a text or a kind of attention that cannot be captured."""
