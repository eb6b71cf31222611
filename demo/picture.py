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
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "demo.svg"
COLUMNS = 90

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
    return _FETCHED_FONTS.sub("", console.export_svg(title="make demo", unique_id="demo"))


def main() -> None:
    """Record the demo and write the picture."""
    PICTURE.write_text(draw(record([sys.executable, "-m", "demo.run"])))


if __name__ == "__main__":
    main()
