"""A config file: the candidate ks, the gates, and the replay options where they are not the reference's."""

import json

from polykv_core.checks import Checks, shown
from polykv_core.config import CapturedReplayConfig
from polykv_core.errors import ConfigError
from polykv_core.jsontext import Source, read_json
from polykv_core.options import REFERENCE, ReplayOptions

_check = Checks(ConfigError)


def settings_json(config: CapturedReplayConfig, options: ReplayOptions = REFERENCE) -> str:
    """The file's whole text; given to `polykv replay --config` it brings the same receipt to the last byte.

    The Rust crate reads it too: it ignores `options`.
    """
    record = config.to_dict() | ({"options": options.changed} if options.changed else {})
    return json.dumps(record, indent=2) + "\n"


def load_settings(source: Source) -> tuple[CapturedReplayConfig, ReplayOptions]:
    """Config and options from such a file; what is missing takes its default. Raises ConfigError."""
    record = _check.record(read_json(source, ConfigError), "the file")
    _check.no_near_miss(record, ("options",), "the config")
    config, options = CapturedReplayConfig.from_dict(record), ReplayOptions.from_dict(record.get("options", {}))
    known = REFERENCE.to_dict()
    for name in record.get("options", {}):
        # Ignored, it would be replayed otherwise than somebody asked for.
        if name not in known:
            raise ConfigError(f"the options has an unknown field {shown(name)}; expected {', '.join(known)}")
    return config, options
