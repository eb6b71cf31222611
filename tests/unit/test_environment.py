"""ops/systemd/environment.example lists every setting, with its default, and no other."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import archiving.job
import auditing.job
import replaying.job
import seeding.job
import typer.main
from typer.core import TyperGroup, TyperOption

from loader.cli import app
from testkit.commands import ROOT
from tests.unit.test_containers import objects, services
from tests.unit.test_reference import REFERENCE

EXAMPLE = (ROOT / "ops" / "systemd" / "environment.example").read_text()
LISTED = dict(re.findall(r'^#?([A-Z_]+)="(.*)"$', EXAMPLE, re.MULTILINE))
DEFAULTS = dict(re.findall(r'^#([A-Z_]+)="(.*)"$', EXAMPLE, re.MULTILINE))
JOBS = (archiving.job, auditing.job, replaying.job, seeding.job)

LIBPQ_ALONE = {"PGPASSFILE"}
"""Read by libpq only; the code knows the other PG* of the file."""
NO_SETTINGS = {"USER", "PATH_INFO", "PYSPARK_GATEWAY_PORT", "WALTALLY_KILL_AT"}
"""Of the operating system, of a web request, of Spark itself, and of the tests."""


def options() -> Iterator[TyperOption]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = [*group.commands.values(), *(typer.main.get_command(job.app) for job in JOBS)]
    for command in commands:
        for parameter in command.params:
            if isinstance(parameter, TyperOption) and parameter.envvar:
                yield parameter


def sources() -> Iterator[Path]:
    yield ROOT / "profiles.yml.example"
    for folder in ("loader", "waltally", "spark"):
        yield from (ROOT / folder).rglob("*.py")
    for pattern in ("macros/**/*.sql", "models/**/*.yml", "models/**/*.sql", "tests/**/*.sql"):
        yield from (ROOT / "dbt_project").glob(pattern)


def read_by_the_code() -> set[str]:
    names = {str(option.envvar) for option in options()}
    for path in sources():
        text = path.read_text()
        names |= set(re.findall(r"env_var\(\s*['\"](\w+)", text))
        names |= set(re.findall(r"environ(?:ment)?(?:\.get\(|\[)\s*\"([A-Z_]+)\"(?!\] = )", text))
        names |= set(re.findall(r"\"([A-Z_]+)\"(?: not)? in os\.environ", text))
    return names - NO_SETTINGS


def test_it_lists_every_setting_that_the_code_reads_and_no_other() -> None:
    assert LISTED.keys() == read_by_the_code() | LIBPQ_ALONE


def test_each_setting_is_there_once_and_is_explained() -> None:
    lines = EXAMPLE.splitlines()
    found = [n for n, line in enumerate(lines) if re.match(r'#?[A-Z_]+="', line)]
    assert len(found) == len(LISTED)
    for number in found:
        above = lines[number - 1]
        # PGHOST, PGPORT, PGDATABASE and PGUSER are explained together.
        assert above.startswith("# ") or lines[number].lstrip("#").startswith("PG"), lines[number]


def test_each_default_is_the_code_s() -> None:
    for option in options():
        name = str(option.envvar)
        if option.default in (None, "") or name not in DEFAULTS:
            continue
        default = option.default
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        assert DEFAULTS[name] == {"False": "0"}.get(shown, shown), name
    profile = (ROOT / "profiles.yml.example").read_text()
    for name in ("PGPORT", "DBT_SCHEMA"):
        assert f"env_var('{name}', '{DEFAULTS[name]}')" in profile
    settings = (ROOT / "waltally" / "settings.py").read_text()
    assert f'"connect_timeout": "{DEFAULTS["PGCONNECT_TIMEOUT"]}"' in settings


def test_every_setting_of_ours_is_on_the_page_of_settings() -> None:
    dbt_itself = {"DBT_PROJECT_DIR", "DBT_PROFILES_DIR", "DBT_PROFILE"}
    for name in LISTED:
        is_ours = name.startswith(("LOADER_", "DBT_")) and name not in dbt_itself
        assert not is_ours or f"| `{name}` |" in REFERENCE, name


def test_a_shell_reads_every_line_as_it_stands() -> None:
    """With the defaults too: what systemd takes literally, the shell must not change."""
    whole = re.sub(r'^#(?=[A-Z_]+=")', "", EXAMPLE, flags=re.MULTILINE)
    done = subprocess.run(
        ["sh", "-euc", f"set -a\n{whole}\nenv -0"], capture_output=True, text=True, env={}
    )
    assert done.returncode == 0, done.stderr
    read = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    assert {name: read[name] for name in LISTED} == LISTED


def test_manifests_and_units_use_no_other_setting() -> None:
    named = {
        *(n for each in objects() if each["kind"] == "Secret" for n in each["stringData"]),
        *(n for name in ("loader", "setup", "seed") for n in services()[name]["environment"]),
    }
    # A certificate's place is libpq's own too.
    assert {name for name in named if name not in LISTED and not name.startswith("PGSSL")} == set()
    units = (ROOT / "ops" / "systemd" / "waltally-.service.d" / "common.conf").read_text()
    assert "EnvironmentFile=/etc/waltally/environment\n" in units
    lines = (ROOT / "ops" / "crontab.example").read_text().splitlines()
    assert all("ops/with-settings " in line for line in lines if re.match(r"[*\d]", line))
