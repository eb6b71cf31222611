"""Count the history of both tables at one position: `spark-submit spark/seed.py`."""

from seeding.cli import main

if __name__ == "__main__":
    main()
