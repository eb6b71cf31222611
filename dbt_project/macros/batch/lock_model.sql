{# Let one build at a time apply this model, whatever slot it reads. A statement of its own: READ
   COMMITTED gives the next statement a snapshot that holds everything the waited-for build
   committed. The first statement of the transaction, so it pins the settings too. #}
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
    {{ pin_transaction() }};
    select pg_advisory_xact_lock(hashtextextended({{ literal('waltally ' ~ model_key()) }}, 0))
{% endmacro %}

{# The model's name in model_watermark: with its schema, so that two targets have one each. #}
{% macro model_key(relation=this) -%}
    {{ relation.schema }}.{{ relation.identifier }}
{%- endmacro %}
