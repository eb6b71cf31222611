"""Changes of the log out of Arrow's batches. Executors import it, so it imports no driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[int, int, str | None, bytes]]:
    """Yield the changes of a batch with the columns position, ordinal, action and payload."""
    positions, ordinals, actions, payloads = batch.columns
    is_large = pa.types.is_large_string(payloads.type)
    return zip(
        positions.to_pylist(),
        ordinals.to_pylist(),
        actions.to_pylist(),
        # No text is made of what is JSON.
        payloads.cast(pa.large_binary() if is_large else pa.binary()).to_pylist(),
        strict=True,
    )
