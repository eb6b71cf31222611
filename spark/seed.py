"""Count the facts' tables at one WAL position: `spark-submit spark/seed.py`."""

from seeding.job import main

if __name__ == "__main__":
    main()
