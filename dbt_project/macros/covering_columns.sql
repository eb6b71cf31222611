{# What the dashboards' indexes hold beside their key: see covering_indexes in dbt_project.yml. #}
{% macro covering_columns() %}
    {{ return(['count'] if var('covering_indexes') else []) }}
{% endmacro %}
