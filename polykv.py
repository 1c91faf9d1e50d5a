"""The program `polykv`: starts the command line, and ends quietly if it is interrupted while it still starts."""

import sys


def main() -> None:
    """Run the command line. It is imported only here, because numpy and its friends take a good part of a second."""
    try:
        from polykv_core.cli import main as command_line
    except KeyboardInterrupt:
        sys.exit(130)
    command_line(prog_name="polykv")


if __name__ == "__main__":
    main()
