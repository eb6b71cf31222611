"""What several Spark jobs need: session, connections, reading, options, errors, progress."""
