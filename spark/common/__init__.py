"""What every Spark job stands on: session, connections, reading over Arrow, options, progress."""
