"""Compute a model as of any position of an archive: `spark-submit spark/replay.py --from PATH`."""

from waltally_jobs.replaying.job import app

if __name__ == "__main__":
    app.main()
