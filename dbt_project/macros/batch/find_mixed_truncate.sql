{# A step of bound_batch: make a rebuild of a normal batch in which a table is truncated whose rows
   a measure adds up together with those of another table. What it had added is not known. #}
{% macro find_mixed_truncate(declared) -%}
    {%- set mixed = [] -%}
    {%- for measure in declared.measures if measure.of | length > 1 -%}
        {%- do mixed.extend(measure.of) -%}
    {%- endfor -%}
    {%- if mixed -%}
    perform set_config('waltally.from_lsn', from_lsn::text, true);
        perform set_config('waltally.to_lsn', to_lsn::text, true);
        is_rebuild := exists (
            select
            from ({{ waltally.read_truncates(declared.tables) }}) as truncates
            where part in ({{ waltally.quote_literals(mixed) }})
        );
    {%- endif -%}
{%- endmacro %}
