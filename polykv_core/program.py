"""How the program ends: one line for every error, one exit code for every kind of end, and no traceback."""

import sys
from typing import Any, NoReturn

import click

from polykv_core.errors import PolyKvError
from polykv_core.terminal import complain, drop_output, print_bytes, print_text

PASSED, FAILED, NO_VERDICT = 0, 1, 2
# As a shell reports a program that ended by SIGINT and by SIGPIPE.
_INTERRUPTED, _PIPE_CLOSED = 130, 141


class Program(click.Group):
    """A click group whose errors are one line each and whose exit codes are ours."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit; whatever happens, no traceback reaches the user."""
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.Abort:
            code = _INTERRUPTED
        except click.UsageError as bad:
            program = bad.ctx.command_path if bad.ctx else "polykv"
            code = _no_verdict(f"{bad.format_message().rstrip('.')} (see {program} --help)")
        except click.ClickException as bad:
            code = _no_verdict(bad.format_message())
        except PolyKvError as bad:
            code = _no_verdict(str(bad))
        except SystemExit as end:
            # Where the reader of a help text went away, click ends with 1, which here means a failed gate.
            code = _PIPE_CLOSED if type(sys.stdout).__name__.endswith("PacifyFlushWrapper") else end.code
        except OSError as bad:
            drop_output()
            code = _no_verdict(reason(bad))
        except MemoryError:
            code = _no_verdict("not enough memory")
        except Exception as bug:  # noqa: BLE001 a user has no use for a traceback
            code = _no_verdict(f"unexpected {type(bug).__name__}: {bug}; this is a fault of polykv, please report it")
        sys.exit(code)


def show(content: str | bytes) -> None:
    """Print to standard output. A reader who went away ends the program quietly, anything else with an error."""
    try:
        print_text(content) if isinstance(content, str) else print_bytes(content)
    except BrokenPipeError:
        raise click.exceptions.Exit(_PIPE_CLOSED) from None
    except OSError as bad:
        raise click.ClickException(f"cannot write to standard output: {reason(bad)}") from None


def reason(bad: Exception) -> str:
    """Why the system refused, without the path it names."""
    return getattr(bad, "strerror", None) or str(bad)


def _no_verdict(message: str) -> int:
    complain("error", message)
    return NO_VERDICT
