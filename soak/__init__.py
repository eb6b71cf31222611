"""Random faults under load: `make soak MINUTES=n SEED=n`, or python -m soak --help."""
