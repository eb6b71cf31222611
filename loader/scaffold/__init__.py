"""`loader init`: a dbt project with one fact of the user's own table."""
