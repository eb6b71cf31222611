"""Compare the fact with the tables while writers go on: `spark-submit spark/audit.py`."""

from auditing.job import app

if __name__ == "__main__":
    app.main()
