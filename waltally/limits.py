"""Times in seconds and sizes in bytes that tests set otherwise. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limits:
    """How long, how often, how much."""

    follow_again: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)
    """Pauses between two tries to follow the slot; the last one repeats."""
    idle_seconds: float = 3.0
    """How long nothing is stored before the position moves without changes."""
    much_wal: int = 16 * 1024 * 1024
    """A slot that holds back more is made to follow; the server frees WAL in such pieces."""
    burst_wal: int = 16 * 1024 * 1024
    """After so much WAL without changes the position moves at once."""
    check_source: float = 1.0
    """How often the second connection asks the source."""
    unanswered: float = 60.0
    """How long the second connection may have no answer."""
    queue_bytes: int = 8 * 1024 * 1024
    """How much may wait to be stored; a larger change passes where less than that waits."""
    queue_wait: float = 0.5
    """How long the reader waits for the server, or for room."""
    ask_after: float = 15.0
    """After how much silence the server is asked for an answer."""
    explain_after: float = 30.0
    """After how much silence the log says that the loader waits."""
    explain_again: float = 60.0
    """How often it says so again."""
    apply_again: float = 5.0
    """The pause after an apply that broke."""
    look_behind: float = 1.0
    """How often to look for models that catch up."""
    look_for_seeds: float = 2.0
    """How often to look for models that wait for a seed."""
    seed_again: float = 30.0
    """The pause after a seed that failed; each further one doubles it, up to 32 times."""
    stop_apply: float = 10.0
    """How long the end of a run waits for an apply before it cancels it."""
    read_lock: float = 5.0
    """How long a command that only reads waits for a lock."""
    stop_seconds: float = 30.0
    """After how long a run that is told to stop ends, also where a server does not answer."""
    longest_pause: float = 0.1
    """The longest pause between two applies."""
    log_progress: float = 10.0
    """How often a run logs a line."""
    refresh_metrics: float = 5.0
    """How often metrics ask source and target."""
    refresh_findings: float = 60.0
    """How often metrics ask for what `loader status` finds."""
    stale_metrics: float = 15.0
    """How old an answer may be that metrics still show."""
    stalled_seconds: float = 60.0
    """Where nothing was stored for so long although there is something to store, the run stalls."""


limits = Limits()
"""Those of this process, read when they are used."""
