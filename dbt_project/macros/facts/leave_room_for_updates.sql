{# Leave room on each page of a new fact. Its rows are updated in every build, and an update that
   finds room on the page does not have to write the indexes. #}
{% macro leave_room_for_updates() %}
    {%- if not load_cached_relation(this) -%}
        alter table {{ this }} set (fillfactor = 80)
    {%- endif -%}
{% endmacro %}
