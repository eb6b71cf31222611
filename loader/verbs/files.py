"""`loader files`: where the dbt package and the Spark jobs are."""

from __future__ import annotations

from loader import shipped_files
from loader.monitoring import text_lines


def files_command() -> None:
    """Print the folder that holds the dbt package and the Spark jobs.

    A dbt project names it in packages.yml, as `- local: FOLDER`; the jobs are in its spark/.

    Example: loader files
    """
    text_lines.write([str(shipped_files.FOLDER)])
