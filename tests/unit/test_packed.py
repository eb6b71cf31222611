"""What Spark's executors get of our code is all that it imports."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from waltally_jobs.common.session import pack_code

_IMPORT = re.compile(r"^\s*from (loader\.\w+|waltally\w*)", re.MULTILINE)


def test_a_packed_module_imports_packed_ones(tmp_path: Path) -> None:
    pack_code(tmp_path / "waltally.zip")
    with zipfile.ZipFile(tmp_path / "waltally.zip") as packed:
        files = [name for name in packed.namelist() if name.endswith(".py")]
        imported = {name for file in files for name in _IMPORT.findall(packed.read(file).decode())}
    folders = {str(Path(file).parent).replace("/", ".") for file in files}
    assert imported <= folders and "loader.staging" in imported
