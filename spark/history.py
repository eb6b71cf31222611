"""Stream a table's changes into any sink: `spark-submit spark/history.py --table T --to PATH`."""

from waltally_jobs.history.job import app

if __name__ == "__main__":
    app.main()
