"""What the status looks like where nobody reads it on a terminal."""

import pytest
from rich.table import Table

from loader.monitoring.status_table import output_console


def test_a_row_stays_on_one_line_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("model", "rejected", box=None)
    table.add_row("ft_" + "x" * 120, "1,234,567 up to FFFFFFFF/FFFFFFFF")
    output_console().print(table)
    row = " ".join(capsys.readouterr().out.splitlines()[1].split())
    assert row.endswith("x 1,234,567 up to FFFFFFFF/FFFFFFFF")
