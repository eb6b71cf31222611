{# The comment in a fact's query that says that the query reads the fact's own table. The
   materialization looks for it: another look at the table's columns could find others. #}
{% macro mark_reading() -%}
    -- What the table holds.
{%- endmacro %}
