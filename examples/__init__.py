"""Sources with their models, each a dbt project with waltally as a package; a page; a pipeline."""
