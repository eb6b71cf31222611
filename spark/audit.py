"""Compare the fact with the tables while writers go on: `spark-submit spark/audit.py`."""

from auditing.cli import main

if __name__ == "__main__":
    main()
