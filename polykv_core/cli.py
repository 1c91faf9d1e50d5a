"""The command line: parse, call, print, exit code. 0 passed, 1 a gate failed, 2 no verdict, 130 interrupted."""

import click

from polykv_core import launch
from polykv_core.commands.capture import capture
from polykv_core.commands.convert import convert
from polykv_core.commands.explain import explain, inspect
from polykv_core.commands.history import history
from polykv_core.commands.replay import model_replay, replay
from polykv_core.commands.shared import file_and_head, fixture_at, naming, with_first_head
from polykv_core.commands.sweep import sweep
from polykv_core.commands.verify import verify_command
from polykv_core.measure import check_replayable
from polykv_core.program import Program
from polykv_core.version import __version__


@click.group(cls=Program, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polykv")
def main() -> None:
    """Replay a captured attention head through a compressed KV cache and judge what is left of it.

    Exit status: 0 passed, 1 a gate failed, 2 no verdict (bad input or usage, output not written).
    """


@main.command()
@click.argument("fixture", required=False)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="[default: the first free one from 8501 on]")
def dashboard(fixture: str | None, port: int | None) -> None:
    """Open the dashboard, with FIXTURE on its first page if one is given.

    It listens on this machine only, until Ctrl-C.
    """
    head = None
    if fixture is not None:
        file, head = file_and_head(fixture)
        captured = fixture_at(fixture if head else with_first_head(file))
        with naming(fixture):
            check_replayable(captured)
        fixture = file
    if port is not None:
        launch.check_port(port)
    launch.serve(fixture, port, head)


for command in (replay, sweep, capture, convert, model_replay, explain, inspect, verify_command, history):
    main.add_command(command)


if __name__ == "__main__":
    main(prog_name="polykv")
