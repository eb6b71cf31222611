{# SQL: what a routine relies on, whoever calls it: no `alter role ... set` may stop it or change a number.

   Names are those of pg_catalog, and all others are qualified. Row security is off, which makes a policy an
   error: it would hide rows without a word. The planner overestimates the groups and would sort wide rows. The
   plan of the first call stays, and where a few rows are searched in a large table it is by their keys,
   whatever that call read. A row that somebody has locked is waited for shortly, because the other models
   wait too. How values are printed and read is what cdc.apply sets, once for all routines. #}
{% macro pin_routine(of='batch') -%}
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_sort = off
set plan_cache_mode = {{ 'force_custom_plan' if of == 'whole' else 'force_generic_plan' }}
{%- if of == 'few' %}
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
{%- endif %}
set lock_timeout = '{{ '1s' if of in ['reader', 'whole'] else '100ms' }}'
{%- endmacro %}
