"""The seed: counts the facts' tables at one WAL position and stores the counts as baselines."""
