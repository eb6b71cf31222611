"""Copy the change log to Parquet, each change once: `spark-submit spark/archive.py --to PATH`."""

from waltally_jobs.archiving.job import app

if __name__ == "__main__":
    app.main()
