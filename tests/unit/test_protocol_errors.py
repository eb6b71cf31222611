from __future__ import annotations

from loader.capture.protocol import ProtocolError, protocol_error
from waltally.errors import CannotConnect, SlotLost


def test_a_decoder_that_fails_for_good_is_not_waited_for() -> None:
    # As libpq says it where the loader was just sending a status; there is no SQLSTATE then.
    said = (
        'sending copy data failed: could not map filenode "base/34443/34650" to relation OID\n'
        "no COPY in progress"
    )
    found = protocol_error(ProtocolError(said), "a_slot")
    assert isinstance(found, SlotLost)
    assert "cannot decode the WAL of a_slot: sending copy data failed" in str(found)
    assert "loader setup --renew" in found.remedy


def test_any_other_end_of_the_stream_is_waited_for() -> None:
    found = protocol_error(ProtocolError("the server ended the stream"), "a_slot")
    assert isinstance(found, CannotConnect)
