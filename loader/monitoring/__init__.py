"""What a person or a program can see of a run: status, metrics, progress."""
