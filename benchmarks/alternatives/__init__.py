"""What else could answer the same question, and what it costs."""
