"""Runs the demo in a terminal and draws what it prints: docs/figures/demo.svg.

python -m demo.picture
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "demo.svg"
COLUMNS = 80

_THEME = TerminalTheme(
    background=(22, 27, 34),
    foreground=(230, 237, 243),
    # black, red, green, yellow, blue, magenta, cyan, white
    normal=[
        (110, 118, 129),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (86, 212, 221),
        (230, 237, 243),
    ],
)
"""Legible on a light and on a dark page."""

# A picture in a page fetches nothing: the reader's own monospaced font is used.
_FETCHED_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def record(command: list[str]) -> str:
    """Run a command in a terminal, show what it prints, and return it with its colours.

    Raises CalledProcessError where the command fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        printed += piece
    os.close(ours)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed.decode()


def draw(printed: str) -> str:
    """Return the SVG of a terminal that shows the lines."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for line in printed.splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    picture = console.export_svg(title="make demo", theme=_THEME, unique_id="demo")
    return _FETCHED_FONTS.sub("", picture)


def main() -> None:
    """Record the demo and write the picture."""
    PICTURE.write_text(draw(record([sys.executable, "-m", "demo.run"])))


if __name__ == "__main__":
    main()
