{# The table that feeds a part of the counts, as [schema, name]: 0 the live rows, 1 the archive. #}
{% macro get_counted_table(place) %}
    {{ return(parse_tables(
        env_var('LOADER_TABLES', 'public.notifications,public.notification_history')
    )[place]) }}
{% endmacro %}
