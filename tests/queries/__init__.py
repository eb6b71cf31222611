"""The compiler of queries: what it keeps equals the query, and what it cannot keep it refuses."""
