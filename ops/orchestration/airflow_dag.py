"""waltally's jobs in Airflow: copy this into your DAGs (docs/spark.md)."""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

RETRY = {10, 29, 30, 31, 33, 34, 39, 41, 47, 49}


class Waltally(BashOperator):
    def execute(self, context):
        command = ["/opt/waltally/ops/with-settings", *self.bash_command.split()]
        code = self.subprocess_hook.run_command(command).exit_code
        if code:
            again = code in RETRY
            raise (AirflowException if again else AirflowFailException)(f"exit code {code}")


one_at_a_time = {"max_active_runs": 1, "max_active_tasks": 1}
start = {"start_date": datetime(2026, 1, 1), "catchup": False}

with DAG("waltally_fresh", schedule="*/10 * * * *", **start, **one_at_a_time):
    Waltally(task_id="fresh", bash_command="loader wait --timeout 60s")

later = {"retries": 3, "retry_delay": timedelta(minutes=5)}
with DAG("waltally_night", schedule="10 2 * * *", default_args=later, **start, **one_at_a_time):
    archive = Waltally(
        task_id="archive",
        bash_command="spark-submit spark/archive.py --to /var/lib/waltally/archive",
    )
    archive >> Waltally(task_id="prune", bash_command="loader prune --keep 7d")
    Waltally(task_id="audit", bash_command="spark-submit spark/audit.py")
