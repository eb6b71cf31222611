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

{# The staging schema as SQL writes it: LOADER_SCHEMA, which the loader reads too, or the dbt
   variable loader_schema. It is always in quotes, because any name works. #}
{% macro get_staging_schema() -%}
    {{ waltally.quote_name(env_var('LOADER_SCHEMA', var('loader_schema', 'cdc'))) }}
{%- endmacro %}

{# The model's name as commands take it; each version of a model has one. loader/setup/query.py has the same. #}
{% macro get_model_name() -%}
    {{ model.name }}{{ '_v' ~ model.version if model.get('version') is not none }}
{%- endmacro %}

{# The model's name in model_watermark. It has the schema in it, so that two targets have a
   watermark each. #}
{% macro get_model_key(relation=this) -%}
    {{ relation.schema }}.{{ relation.identifier }}
{%- endmacro %}
