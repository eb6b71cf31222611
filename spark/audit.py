"""Compare the model with the tables while writers go on: `spark-submit spark/audit.py`."""

from waltally_jobs.auditing.job import app

if __name__ == "__main__":
    app.main()
