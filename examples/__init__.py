"""Three sources with their models: each folder is a dbt project that has waltally as a package."""
