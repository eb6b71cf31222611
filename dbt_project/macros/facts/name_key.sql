{# The name of the constraint by which a batch finds what is stored. #}
{% macro name_key(declared) -%}
    {{ this.identifier ~ '_pkey' if declared.kind == 'current_rows' else 'uix_' ~ this.identifier ~ '_dimensions' }}
{%- endmacro %}
