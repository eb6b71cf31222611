{# Rows of a fact are updated over and over: with room on the page an update touches no index. #}
{% macro leave_room_for_updates() %}
    {%- if not load_cached_relation(this) -%}
        alter table {{ this }} set (fillfactor = 80)
    {%- endif -%}
{% endmacro %}
