"""The pages are true: what they name is there, and each promise has its tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
import yaml
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner
from waltally_jobs.applying import job as applying
from waltally_jobs.auditing import job as auditing
from waltally_jobs.common import errors as of_jobs
from waltally_jobs.history import job as history
from waltally_jobs.seeding import job as seeding

from docs.site import generated, pages
from loader.cli import app
from testkit.commands import ROOT
from waltally.errors import TRANSIENT, LoaderError, SlotCreationBlocked

REFERENCE = (ROOT / "docs" / "reference.md").read_text()
GROUP = cast(TyperGroup, typer.main.get_command(app))


AGAIN = (
    *TRANSIENT,
    SlotCreationBlocked,
    *(of_jobs.SnapshotLost, of_jobs.SnapshotBlocked, of_jobs.AnotherSeed),
    *(of_jobs.CountingFailed, of_jobs.NoExecutor),
)
"""What is repeated as it was."""


def errors(kind: type[LoaderError] = LoaderError) -> Iterator[type[LoaderError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from errors(below)


def options(command: Any) -> list[TyperOption]:
    return [
        each for each in command.params if isinstance(each, TyperOption) and each.name != "help"
    ]


@pytest.mark.parametrize("path", generated.FILES)
def test_what_repeats_the_code_says_what_the_code_says(path: str) -> None:
    text = (ROOT / path).read_text()
    assert generated.FILES[path](text) == text, "make fix"


def test_an_exit_code_is_for_what_a_program_would_do_and_the_runbook_has_each() -> None:
    codes = {kind.exit_code for kind in errors()}
    assert len(codes) <= 20
    # What waiting may heal shares no code with what somebody has to mend.
    ending = {kind.exit_code for kind in errors() if not issubclass(kind, AGAIN)}
    assert ending.isdisjoint(kind.exit_code for kind in TRANSIENT)
    listed = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert list(map(int, listed)) == sorted(codes)


def default_of(option: TyperOption) -> str:
    """What the pages say of an option's default, empty where it has none."""
    default = option.default
    return f"{default:g}" if isinstance(default, float) else str(default or "")


def test_every_command_option_and_setting_is_on_the_page_with_its_default() -> None:
    for name, command in GROUP.commands.items():
        assert f"`loader {name}`" in REFERENCE
        for option in options(command):
            assert f"`{option.opts[0]}" in REFERENCE, f"{option.opts[0]} of {name}"
            if option.envvar:
                (row,) = re.findall(rf"^\| `{option.envvar}` \|.*", REFERENCE, re.MULTILINE)
                assert f"`{option.opts[0]}`" in row
                assert f"`{default_of(option)}`" in row or not option.default


EXAMPLE = (ROOT / "ops" / "systemd" / "environment.example").read_text()
LISTED = dict(re.findall(r'^#?([A-Z_]+)="(.*)"$', EXAMPLE, re.MULTILINE))
DEFAULTS = dict(re.findall(r'^#([A-Z_]+)="(.*)"$', EXAMPLE, re.MULTILINE))
JOBS = (applying, auditing, history, seeding)

LIBPQ_ALONE = {"PGPASSFILE"}
"""Read by libpq only; the code knows the other PG* of the file."""
NO_SETTINGS = {
    *("USER", "PATH_INFO", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "WALTALLY_KILL_AT"),
    "PGSERVICE",
}
"""Of the system, of a web request, of Spark itself, of the tests, and what dbt refuses."""


def every_option() -> list[TyperOption]:
    """The options of all commands and jobs that have a setting."""
    commands = (*GROUP.commands.values(), *(typer.main.get_command(job.app) for job in JOBS))
    return [option for command in commands for option in options(command) if option.envvar]


SOURCES = (
    *("profiles.yml.example", "loader/**/*.py", "waltally/**/*.py", "spark/**/*.py"),
    *("dbt_project/macros/**/*.sql", "dbt_project/models/**/*.*", "dbt_project/tests/**/*.sql"),
)


def read_by_the_code() -> set[str]:
    names = {str(option.envvar) for option in every_option()}
    for path in (path for pattern in SOURCES for path in ROOT.glob(pattern)):
        text = path.read_text()
        names |= set(re.findall(r"env_var\(\s*['\"](\w+)", text))
        names |= set(re.findall(r"environ(?:ment)?(?:\.get\(|\[)\s*\"([A-Z_]+)\"(?!\] = )", text))
        names |= set(re.findall(r"\"([A-Z_]+)\"(?: not)? in os\.environ", text))
    return names - NO_SETTINGS


def test_it_lists_every_setting_that_the_code_reads_and_no_other() -> None:
    assert LISTED.keys() == read_by_the_code() | LIBPQ_ALONE


def test_each_default_is_the_code_s() -> None:
    for option in every_option():
        name = str(option.envvar)
        if option.default not in (None, "") and name in DEFAULTS:
            assert DEFAULTS[name] == (default_of(option) or "0"), name
    profile = (ROOT / "profiles.yml.example").read_text()
    for name in ("PGPORT", "DBT_SCHEMA"):
        assert f"env_var('{name}', '{DEFAULTS[name]}')" in profile
    settings = (ROOT / "waltally" / "settings.py").read_text()
    assert f'"connect_timeout": "{DEFAULTS["PGCONNECT_TIMEOUT"]}"' in settings


@pytest.mark.parametrize("verb", sorted(GROUP.commands))
def test_the_examples_of_a_command_s_help_parse(verb: str) -> None:
    command = GROUP.commands[verb]
    examples = re.findall(r"^ *Example: loader (.+)$", command.help or "", re.MULTILINE)
    assert examples
    for name, *arguments in map(shlex.split, examples):
        assert name == verb
        with command.make_context(verb, arguments):
            pass


def test_a_spark_job_s_help_has_an_example_and_the_settings() -> None:
    for job in JOBS:
        done = CliRunner().invoke(job.app, ["--help"], terminal_width=400)
        assert done.exit_code == 0, done.output
        assert re.search(r"spark-submit spark/\w+\.py", done.stdout)
        for name in re.findall(r"env var: (\w+)", done.stdout):
            assert f"`{name}`" in REFERENCE


PAGES = sorted(
    path
    for pattern in ("*.md", "llms.txt", "docs/**/*.md", "examples/*/*.md")
    for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the files that a page links to, each with the heading's anchor, empty for none."""
    found = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if not target.startswith(("http://", "https://")):
            name, _, anchor = target.partition("#")
            found.append(((page.parent / name).resolve() if name else page, anchor))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


_PATH = re.compile(
    r"`((?:benchmarks|dbt_project|demo|docs|examples|loader|ops|soak|spark|testkit|tests|waltally)/"
    r"[\w./*-]*)"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_path_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name}#{anchor}"
    assert [path for path in _PATH.findall(page.read_text()) if not any(ROOT.glob(path))] == []


def named(part: Any) -> Iterator[str]:
    """Yield the pages that a part of the site's navigation names."""
    if isinstance(part, str):
        yield part
    else:
        for each in part.values() if isinstance(part, dict) else part:
            yield from named(each)


def test_every_page_is_in_the_site_s_navigation_once() -> None:
    """Add a new page to `nav` in mkdocs.yml, where a reader looks for it."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(named(navigation)) == pages.pages()


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = {ROOT / "README.md"}
    while waiting:
        reached |= waiting
        found = {target for page in waiting for target, _ in links(page)}
        waiting = {page for page in found - reached if page.suffix == ".md"}
    decisions = set(ROOT.glob("docs/decisions/*.md"))
    assert set(ROOT.glob("docs/**/*.md")) - decisions <= reached


def test_readme_and_models_are_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert len((ROOT / "docs/models.md").read_text().split()) <= 2000


TABLE = (ROOT / "tests/promises.md").read_text()
ROWS = dict(re.findall(r"^\| (.*?) \| (`.*`|none: .*) \|$", TABLE, re.MULTILINE))
PAGE = (ROOT / "docs/guarantees.md").read_text()
LINES = re.findall(r"^- (.*(?:\n  .*)*)", PAGE, flags=re.MULTILINE)
"""A line of the page each, with what it goes on with."""


def test_the_table_has_every_line_of_the_page_and_none_that_is_gone() -> None:
    plain = [" ".join(line.replace("**", "").split()) for line in LINES]
    promises = [row for row in ROWS if re.match(r"[1-8] ", row)]
    assert len(promises) == 8
    assert [line for line in plain if not line.startswith(tuple(ROWS))] == []
    assert [row for row in ROWS if not any(line.startswith(row) for line in plain)] == promises


def test_what_the_page_says_to_run_is_there() -> None:
    gone = [path for path in re.findall(r"\btests/[\w./]+", PAGE) if not (ROOT / path).exists()]
    assert gone == []


@pytest.mark.parametrize("page", ["tests/promises.md", "CONTRIBUTING.md"])
def test_its_tests_are_there(page: str) -> None:
    named = re.findall(r"`(tests/[^`]+)::(\w+)`", (ROOT / page).read_text())
    assert len(named) >= 3
    gone = [each for each in named if f"def {each[1]}(" not in (ROOT / each[0]).read_text()]
    assert gone == []
