{%- set changed = var('changed', '') %}
{{ config(materialized='waltally', engine='spark' if changed == 'spark' else 'database') }}

select
    service_id,
    {%- if changed == 'columns' %}
    key_type,
    {%- for letter in 'abcdefghij' %}
    key_type || '{{ letter }}' as {{ letter }},
    {%- endfor %}
    {%- endif %}
    count(*) as count
from {{ source('notify', 'notifications') }}
{{ 'group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12' if changed == 'columns' else 'group by 1' }}
