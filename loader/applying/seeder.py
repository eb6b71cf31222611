"""Starts the seeds that models wait for, one at a time: `loader run --seed`."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

from loader import shipped_files
from waltally.database import connect_target
from waltally.errors import LoaderError, SettingError, unexpected
from waltally.limits import limits
from waltally.settings import Settings

log = logging.getLogger("loader")

THREAD = "seeds"
_DUE = "select {}.due_seeds(%s)"
# As the seed itself does, which may begin minutes later: model_state says then that one counts.
_BEGIN = """
select pg_advisory_lock_shared({0}.lock_key('seeding', slot_name, relation))
from {0}.installed_model where slot_name = %s and model_name = any (%s)
"""
_NOTE = "select {}.note_seed(%s, %s, %s, %s)"


def seed_command(given: str) -> list[str]:
    """Return the words of the command that takes a seed, the shipped job's by default.

    Raises SettingError where its program is not there.
    """
    job = str(shipped_files.FOLDER / "spark" / "seed.py")
    own = Path(sys.executable).with_name("spark-submit")
    words = shlex.split(given) or [str(own) if own.exists() else "spark-submit", job]
    if shutil.which(words[0]) is None:
        raise SettingError(
            f"--seed needs {words[0]}, which is not there",
            f"{shipped_files.pip_install('waltally[spark]')}; or name a command by --seed-command",
        )
    return words


class Seeder:
    """A thread that looks for models that wait for a seed, and runs the command for them.

    One that fails is tried again later and later; meanwhile the models' state says what it ended
    with. Whose seed somebody else has begun is left alone.
    """

    def __init__(self, settings: Settings, command: list[str]) -> None:
        self._settings = settings
        self._command = command
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._look, name=THREAD, daemon=True)

    def __enter__(self) -> None:
        """Begin to look."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Stop the seed that runs, and look no more."""
        self._stop.set()
        if (process := self._process) is not None:
            _end(process, signal.SIGTERM)
            self._thread.join(limits.stop_apply)
            if process.poll() is None:
                _end(process, signal.SIGKILL)
        self._thread.join(limits.stop_apply)

    def _look(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(connect_target(self._settings)) as target:
                    ((models,),) = target.ask_staging(_DUE, (self._settings.slot,))
                    if models:
                        target.ask_staging(_BEGIN, (self._settings.slot, models))
                        self._seed(models)
            # Any exception: the loader goes on.
            except Exception as failure:
                error = failure if isinstance(failure, LoaderError) else unexpected(failure)
                log.error("no seed can be started: %s; trying again", error)
            self._stop.wait(limits.look_for_seeds)

    def _seed(self, models: list[str]) -> None:
        words = [*self._command, *(word for model in models for word in ("--model", model))]
        log.info("starting the seed of %s: %s", ", ".join(models), shlex.join(words))
        said = ""
        with subprocess.Popen(
            words,
            env=os.environ | self._settings.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            self._process = process
            if self._stop.is_set():
                _end(process, signal.SIGTERM)
            for line in process.stdout or ():
                if line.strip():
                    log.info("seed: %s", line.rstrip())
                    said = line.strip().removeprefix("Error: ") if "Error: " in line else said
        self._process = None
        if self._stop.is_set():
            log.info("the seed was stopped; what was stored before is intact")
            return
        code = process.returncode
        error = None if code == 0 else f"its seed ended with exit code {code}: {said or 'no error'}"
        with closing(connect_target(self._settings)) as target:
            values = (self._settings.slot, models, error, limits.seed_again)
            target.ask_staging(_NOTE, values)
        if error is not None:
            log.error("%s\nTry: %s", error, shlex.join(words))


def _end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a command and to what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
