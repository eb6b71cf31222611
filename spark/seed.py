"""Count the facts' tables at one WAL position: `spark-submit spark/seed.py`."""

from seeding.job import app

if __name__ == "__main__":
    app.main()
