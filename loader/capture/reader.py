"""A thread that reads the slot into a queue and confirms what the storing thread made durable."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from loader.capture import wal2json
from loader.capture.position import Position
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.source_monitor import SourceMonitor
from loader.capture.stages import Stage
from loader.capture.wal2json import Keepalive, Message, WholeTransactions
from waltally.errors import CannotConnect, LoaderError, unexpected
from waltally.limits import limits
from waltally.tables import Table

_BUNDLE_SIZE = 128 * 1024
_MESSAGE_OVERHEAD = 64
_SMALL_BUNDLE = 64 * 1024
_GATHER_SECONDS = 0.001

log = logging.getLogger("loader")


class _Bundles(queue.Queue[tuple[list[Message], int]]):
    """Bundles that wait, each with its bytes; `maxsize` limits these, not how many bundles."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._bytes = 0

    def _qsize(self) -> int:
        return self._bytes

    def _put(self, item: tuple[list[Message], int]) -> None:
        super()._put(item)
        self._bytes += item[1]

    def _get(self) -> tuple[list[Message], int]:
        item = super()._get()
        self._bytes -= item[1]
        return item


class SlotReader:
    """Follows a started replication connection until closed.

    Only the confirmed position goes out as feedback, so the server's position never passes the
    position of record. Feedback also goes out while the queue is full, so that a slow target does
    not make the server end the connection.
    """

    def __init__(
        self,
        connection: ReplicationConnection,
        position: Position,
        monitor: SourceMonitor,
        stages: Sequence[Stage],
        root_of: Mapping[Table, Table],
        status_seconds: float,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        """`stages` are applied to what comes, in this order; see `wal2json.withheld` for `root_of`.

        Feedback goes out every `status_seconds`. `cut` ends what else waits for a source
        that does not answer.
        """
        self._connection = connection
        self._position = position
        self._monitor = monitor
        self._stages = stages
        self._root_of = root_of
        self._status_seconds = status_seconds
        self._cut = cut
        self._bundles = _Bundles(limits.queue_bytes)
        self.failure: Exception | None = None
        """What broke the reading."""
        self._whole = WholeTransactions()
        self.is_over = False
        """Whether everything is taken that came before the reading broke."""
        self._sent_lsn = 0
        self._sent_at = float("-inf")
        self._end_silence()
        self._reason: LoaderError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def take(self, timeout: float) -> list[Message]:
        """Return what was read first; nothing where nothing came within `timeout` seconds.

        Nothing comes any more once it `is_over`.
        """
        # Before the queue is looked at: what came before the failure is in there already.
        has_failed = self.failure is not None
        try:
            return self._bundles.get(timeout=timeout)[0]
        except queue.Empty:
            self.is_over = has_failed
            return []

    def raise_if_over(self) -> None:
        """Raise what broke the reading, once everything that came before is taken."""
        if self.is_over and self.failure is not None:
            raise self.failure

    def stop(self, reason: LoaderError) -> None:
        """Free the slot at once, also while the queue is full, for a reason that is then raised."""
        self._reason = self._reason or reason
        self._stopping.set()

    def close(self) -> None:
        """Confirm what is durable, stop reading and free the slot."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.finish()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_bundle()
            if self._reason is not None:
                raise self._reason
            self._send_status()
        except (LoaderError, ProtocolError, ValueError) as error:
            self._fail(error)
        except BaseException as error:
            log.debug("the reader broke", exc_info=error)
            self._fail(unexpected(error))

    def _fail(self, error: Exception) -> None:
        # Here and not in `close`: the storing thread may wait long for the target before that.
        self._connection.finish()
        self.failure = error
        # Only now: whoever waits for an answer then sees what has cut it.
        if isinstance(error, CannotConnect):
            self._cut()

    def _read_bundle(self) -> None:
        arrived = self._connection.receive(_BUNDLE_SIZE)
        bundle, size = self._decoded(arrived)
        for stage in self._stages:
            bundle = stage(bundle)
        self._keep_up()
        if bundle:
            self._end_silence()
            while not self._is_queued(bundle, size):
                if self._stopping.is_set():
                    return
                self._keep_up()
        if not arrived:
            if not self._connection.wait(min(limits.queue_wait, self._status_seconds)):
                self._check_silence()
        elif size < _SMALL_BUNDLE:
            # Waking up per message costs more than processing it.
            time.sleep(_GATHER_SECONDS)

    def _decoded(self, arrived: list[bytes | Keepalive | str]) -> tuple[list[Message], int]:
        """Return the messages and about how many bytes they take."""
        bundle: list[Message] = []
        size = 0
        decode = wal2json.decode
        for payload in arrived:
            if type(payload) is bytes:
                message = decode(payload)
                size += len(payload)
            elif isinstance(payload, Keepalive):
                message = payload
                if payload.wants_reply:
                    self._send_status()
            else:
                message = wal2json.withheld(str(payload), self._root_of)
            if message is not None:
                self._whole.check(message)
                bundle.append(message)
                size += _MESSAGE_OVERHEAD
        return bundle, size

    def _is_queued(self, bundle: list[Message], size: int) -> bool:
        try:
            self._bundles.put((bundle, size), timeout=limits.queue_wait)
        except queue.Full:
            return False
        return True

    def _end_silence(self) -> None:
        """Note that the server has sent something."""
        self._heard_at = time.monotonic()
        self._is_asked = False
        self._explain_at = limits.explain_after
        """After how much silence to say that the loader waits."""

    def _check_silence(self) -> None:
        """Treat a silent server as gone only where the source monitor says that the slot is free.

        A server that skips a transaction without changes for us is silent for minutes, and a new
        session would have to skip it again. If the network fails, keepalives and
        tcp_user_timeout end the connections. If a proxy goes on answering for the server, the
        source monitor gets no answer either.
        """
        silent_for = time.monotonic() - self._heard_at
        if silent_for > limits.ask_after and not self._is_asked:
            self._is_asked = True
            self._connection.send_status(self._position.confirmed, want_reply=True)
        if silent_for > limits.explain_after and not self._monitor.answer.has_slot:
            raise ProtocolError(f"it has been silent for {silent_for:.0f} s, and the slot is free")
        if silent_for > self._explain_at:
            self._explain_at = silent_for + limits.explain_again
            log.warning(
                "the server has sent nothing for %.0f s: it is busy with a transaction that has no "
                "changes for us; the loader waits, and nothing is lost",
                silent_for,
            )

    def _keep_up(self) -> None:
        """Send feedback that is due. Raise where the source monitor gets no answer for too long."""
        overdue = time.monotonic() - self._sent_at >= self._status_seconds
        if overdue or self._position.confirmed > self._sent_lsn:
            self._send_status()
        silent_for = self._monitor.seconds_without_answer
        if silent_for > limits.unanswered:
            raise CannotConnect(
                "The source cannot be reached: the second connection had no answer for "
                f"{silent_for:.0f} s",
                "check that the server runs and has a free connection for the loader",
            )

    def _send_status(self) -> None:
        confirmed = self._position.confirmed
        self._connection.send_status(confirmed)
        self._sent_lsn = confirmed
        self._sent_at = time.monotonic()
