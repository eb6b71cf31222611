"""What `make install` finds and installs on machines that this one is not: PATH has only fakes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "ops"
COMMON = ("dirname", "env", "find", "grep", "mkdir", "sed", "sh", "sort")
SERVER = ("postgres", "initdb", "pg_ctl", "psql")
BOOKWORM = ["postgresql-15", "postgresql-15-wal2json", "openjdk-17-jre-headless", "python3.11-venv"]
TRIXIE = ["postgresql-17", "postgresql-17-wal2json", "openjdk-21-jre-headless", "python3.13-venv"]
NOBLE = ["postgresql-16", "postgresql-16-wal2json", "openjdk-21-jre-headless", "python3.12-venv"]
SID = ["postgresql-18", "postgresql-18-wal2json", "openjdk-21-jre-headless", "python3.13-venv"]


@dataclass(frozen=True)
class Machine:
    """A folder of programs, and one of packaged PostgreSQL versions."""

    home: Path

    @property
    def programs(self) -> Path:
        return self.home / "bin"

    @property
    def postgresql(self) -> Path:
        return self.home / "postgresql"

    def has(self, name: str, script: str) -> None:
        self.write(self.programs / name, script)

    def has_apt(self, archive: Iterable[str]) -> None:
        """Have an archive of these packages; `installed` returns what apt-get was asked for."""
        packages = self.home / "archive"
        packages.write_text("".join(f"{package} - a package\n" for package in archive))
        self.has("apt-get", f'[ "$1" = update ] || echo "$*" >>{self.home}/installed')
        self.has(
            "apt-cache",
            f'if [ "$1" = search ]; then grep "wal2json" {packages}\n'
            f'elif grep -q "^$2 " {packages}; then echo "  Candidate: 1.0"\n'
            'else echo "  Candidate: (none)"; fi',
        )

    def has_python(self, name: str, version: str, venv: bool = True) -> None:
        self.has(name, f'case "$2" in *print*) echo {version} ;; *) {str(venv).lower()} ;; esac')

    def has_server(self, version: str, plugin: bool = True) -> Path:
        folder = self.postgresql / version / "bin"
        for program in SERVER:
            self.write(folder / program, f'echo "postgres (PostgreSQL) {version}.1"')
        self.write(folder / "pg_config", f'[ "$1" = --bindir ] && echo {folder} || echo {folder}')
        if plugin:
            (folder / "wal2json.so").touch()
        return folder

    def write(self, path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.home / "ops" / script],
            env={"PATH": str(self.programs), "PG_ROOT": str(self.postgresql), **environment},
            capture_output=True,
            text=True,
        )

    def finds(self, script: str, **environment: str) -> str:
        done = self.run(script, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def refuses(self, script: str, **environment: str) -> str:
        done = self.run(script, **environment)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 2, done.stderr
        return done.stderr

    def installed(self) -> list[str]:
        (line,) = (self.home / "installed").read_text().splitlines()
        return [word for word in line.split()[1:] if not word.startswith("-")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with nothing but the commonest programs, seen by root."""
    made = Machine(tmp_path)
    made.programs.mkdir()
    for name in COMMON:
        found = shutil.which(name)
        assert found is not None
        (made.programs / name).symlink_to(found)
    made.has("id", "echo 0")
    (tmp_path / "ops").mkdir()
    for script in ("find-postgres", "find-python", "install-debian.sh"):
        # Root's real /etc stays as it is.
        text = (OPS / script).read_text().replace("/etc/postgresql-common", f"{tmp_path}/etc")
        made.write(tmp_path / "ops" / script, text)
    return made


@pytest.mark.parametrize("archive", [BOOKWORM, TRIXIE, NOBLE, SID])
def test_a_bare_machine_gets_what_its_archive_has(machine: Machine, archive: list[str]) -> None:
    machine.has_apt([*archive, "postgresql-14", "postgresql-19"])
    done = machine.run("install-debian.sh")
    assert done.returncode == 0, done.stderr
    assert machine.installed() == [*archive, "util-linux"]
    assert "Installing postgresql" in done.stdout
    assert "create_main_cluster = false" in (machine.home / "etc/createcluster.conf").read_text()


def test_a_version_that_is_asked_for_is_installed_beside_another(machine: Machine) -> None:
    machine.has_apt([*TRIXIE, "postgresql-16", "postgresql-16-wal2json"])
    machine.has_server("17")
    assert machine.run("install-debian.sh", PG="16").returncode == 0
    assert machine.installed()[:2] == ["postgresql-16", "postgresql-16-wal2json"]
    assert "of version 18" in machine.refuses("install-debian.sh", PG="18")


def test_an_installed_server_gets_the_plugin_of_its_version(machine: Machine) -> None:
    machine.has_apt([*TRIXIE, "postgresql-16", "postgresql-16-wal2json"])
    machine.has_server("16", plugin=False)
    assert machine.run("install-debian.sh").returncode == 0
    assert "postgresql-16-wal2json" in machine.installed()


def test_a_server_whose_plugin_is_not_packaged_gets_a_newer_one_beside_it(machine: Machine) -> None:
    machine.has_apt([*TRIXIE, "postgresql-14"])
    machine.has_server("14", plugin=False)
    assert machine.run("install-debian.sh").returncode == 0
    assert machine.installed()[:2] == ["postgresql-17", "postgresql-17-wal2json"]


def test_a_user_is_told_the_command_for_root(machine: Machine) -> None:
    machine.has_apt(BOOKWORM)
    machine.has("id", "echo 1000")
    assert machine.refuses("install-debian.sh").endswith("\nTry: sudo ops/install-debian.sh\n")
    said = machine.refuses("install-debian.sh", PG="15")
    assert said.endswith("\nTry: sudo PG=15 ops/install-debian.sh\n")


def test_a_user_who_has_everything_needs_no_root(machine: Machine) -> None:
    machine.has("id", "echo 1000")
    machine.has_server("17")
    machine.has_python("python3", "3.12")
    machine.has("java", "echo 'openjdk version \"21.0.9\" 2025-10-21' >&2")
    assert machine.finds("install-debian.sh") == ""


def test_a_machine_without_apt_is_told_what_to_install(machine: Machine) -> None:
    said = machine.refuses("install-debian.sh")
    assert "a PostgreSQL server with wal2json; Java 17 or 21; Python 3.11, 3.12 or 3.13" in said


def test_a_folder_that_has_no_server_is_refused(machine: Machine) -> None:
    machine.has_apt(BOOKWORM)
    said = machine.refuses("install-debian.sh", PG_BIN="/nowhere")
    assert "/nowhere lacks postgres initdb pg_ctl pg_config psql" in said
    folder = machine.has_server("17", plugin=False)
    said = machine.refuses("find-postgres", PG_BIN=str(folder))
    assert f"{folder} lacks wal2json.so" in said
    assert said.endswith("\nTry: apt-get install postgresql-17-wal2json\n")
    assert "JAVA_HOME is /nowhere" in machine.refuses("install-debian.sh", JAVA_HOME="/nowhere")
    assert not (machine.home / "installed").exists()


def test_the_server_is_the_one_asked_for_or_the_newest_complete_one(machine: Machine) -> None:
    assert "has no PostgreSQL server" in machine.refuses("find-postgres")
    nine, fifteen, seventeen = map(machine.has_server, ("9", "15", "17"))
    machine.has_server("18", plugin=False)
    assert machine.finds("find-postgres") == str(seventeen)
    machine.has("pg_config", f"echo {fifteen}")
    assert machine.finds("find-postgres") == str(fifteen)
    assert machine.finds("find-postgres", PG_BIN=str(nine)) == str(nine)
    assert machine.finds("find-postgres", PG="17", PG_BIN=str(nine)) == str(seventeen)
    assert "16/bin lacks" in machine.refuses("find-postgres", PG="16")


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_a_python_that_the_project_does_not_run_on_is_refused(
    machine: Machine, version: str
) -> None:
    machine.has_python("python3", version)
    assert f"python3 is {version}; waltally runs on Python 3.11" in machine.refuses("find-python")
    machine.has_python("python3.12", "3.12")
    assert machine.finds("find-python").endswith("/python3.12")
    machine.has_python("python3.13", "3.13")
    assert machine.finds("find-python").endswith("/python3.13")
    assert "python3 is" in machine.refuses("find-python", PYTHON="python3")


def test_a_python_whose_path_has_a_blank_is_found(machine: Machine) -> None:
    machine.write(machine.home / "my python" / "python", 'case "$2" in *print*) echo 3.12 ;; esac')
    chosen = str(machine.home / "my python" / "python")
    assert machine.finds("find-python", PYTHON=chosen) == chosen


def test_a_folder_of_the_server_may_be_named_from_where_one_is(machine: Machine) -> None:
    folder = machine.has_server("17")
    done = subprocess.run(
        [machine.home / "ops" / "find-postgres"],
        cwd=folder.parent,
        env={"PATH": str(machine.programs), "PG_BIN": "bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(folder)


def test_an_archive_that_is_gone_does_not_keep_the_others_from_being_used(machine: Machine) -> None:
    machine.has_apt(BOOKWORM)
    machine.has("apt-get", f'[ "$1" != update ] || exit 100; echo "$*" >>{machine.home}/installed')
    machine.finds("install-debian.sh")
    assert machine.installed() == [*BOOKWORM, "util-linux"]


def test_every_user_may_read_what_is_made_in_etc(machine: Machine) -> None:
    """Even if root keeps its own files to itself."""
    machine.has_apt(BOOKWORM)
    before = os.umask(0o077)
    try:
        machine.finds("install-debian.sh")
    finally:
        os.umask(before)
    made = machine.home / "etc"
    modes = [path.stat().st_mode & 0o777 for path in (made, made / "createcluster.conf")]
    assert modes == [0o755, 0o644]


def test_an_environment_whose_making_was_interrupted_is_made_anew(machine: Machine) -> None:
    """Else pip lacks a part of itself, and every later make fails."""
    project = machine.home / "project"
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "ops"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).symlink_to(OPS.parent / name)
    (project / ".venv" / "bin").mkdir(parents=True)
    machine.write(project / ".venv" / "bin" / "python", "exit 1")
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", ".venv/.installed"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    (making,) = (line for line in done.stdout.splitlines() if "-m venv" in line)
    machine.has("python", 'echo "$*" >made')
    made = subprocess.run(
        ["sh", "-c", making.replace("ops/find-python", f"echo {machine.programs}/python")],
        cwd=project,
        env={"PATH": str(machine.programs)},
    )
    assert (made.returncode, (project / "made").read_text()) == (0, "-m venv --clear .venv\n")


def test_a_python_without_venv_is_refused_with_the_package(machine: Machine) -> None:
    machine.has_python("python3", "3.12", venv=False)
    assert "Try: apt-get install python3.12-venv" in machine.refuses("find-python")


def test_this_machine_has_everything() -> None:
    done = subprocess.run([OPS / "install-debian.sh"], env=os.environ, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
