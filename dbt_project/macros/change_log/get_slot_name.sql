{# The slot whose changes are applied: LOADER_SLOT, which the loader reads too, or the dbt variable
   loader_slot. #}
{% macro get_slot_name() -%}
    {%- set name = env_var('LOADER_SLOT', var('loader_slot', 'waltally')) -%}
    {%- if not modules.re.fullmatch('[a-z0-9_]{1,63}', name) -%}
        {{ exceptions.raise_compiler_error(
            'LOADER_SLOT is ' ~ name ~ ': a slot has lower-case letters, digits and underscores.'
        ) }}
    {%- endif -%}
    {{ name }}
{%- endmacro %}
