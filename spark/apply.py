"""Apply what is staged to the models that say engine='spark': `spark-submit spark/apply.py`."""

from waltally_jobs.applying.job import app

if __name__ == "__main__":
    app.main()
