{# Let one build at a time apply this model. A statement of its own: READ COMMITTED gives the next
   statement a snapshot that holds everything the waited-for build committed. #}
{% macro lock_model() %}
    {%- if target.get('autocommit') -%}
        {{ exceptions.raise_compiler_error(
            'A build is one transaction: remove autocommit from the profile.'
        ) }}
    {%- endif -%}
    {%- if flags.EMPTY -%}
        {{ exceptions.raise_compiler_error(
            'An --empty build would pass over changes without applying them: run without it.'
        ) }}
    {%- endif -%}
    select pg_advisory_xact_lock(
        hashtextextended('waltally {{ model_key() }} {{ slot_name() }}', 0)
    )
{% endmacro %}

{# The model's name in model_watermark: with its schema, so that two targets have one each. #}
{% macro model_key(relation=this) -%}
    {{ relation.schema }}.{{ relation.identifier }}
{%- endmacro %}
