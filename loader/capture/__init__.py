"""From the slot to batches of rows: protocol, reader, queue, COPY, session."""
