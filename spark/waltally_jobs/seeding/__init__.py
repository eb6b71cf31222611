"""The seed: counts the models' tables at one WAL position and stores the counts as baselines."""
