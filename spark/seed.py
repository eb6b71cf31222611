"""Count the models' tables at one WAL position: `spark-submit spark/seed.py`."""

from waltally_jobs.seeding.job import app

if __name__ == "__main__":
    app.main()
