"""Three sources with their facts: each folder is a dbt project that has waltally as a package."""
