{# SQL text: `when condition then reason`, for an image's value that a sum does not take. More
   decimals than the measure's type keeps would be rounded batch by batch; a value that its type cannot hold
   would stop the fact. #}
{% macro find_bad_sum(measure, values, image, tables) -%}
    {%- set texts = [] -%}
    {%- set is_summed -%}
        has_{{ image }}
        {%- if measure.of | length < tables | length %} and part in ({{ waltally.quote_literals(measure.of) }}){% endif %}
        {{- waltally.is_measured(measure, values, image ~ '_') }}
    {%- endset %}
    {%- for column in measure.columns %}
    {%- for value in values if value.kind == 'sum' and value.column == column %}
    {%- do texts.append(waltally.read_value_text(image ~ '_v' ~ values.index(value))) %}
    {%- endfor %}
            when {{ is_summed }} and not {{ waltally.get_staging_schema() }}.takes('numeric', {{ texts[-1] }})
                then {{ waltally.quote_literal('the value of ' ~ column ~ ' is not a number') }}
    {%- endfor %}
    {%- if measure.type != 'numeric' %}
    {%- set digits = modules.re.findall('[0-9]+', measure.type) -%}
    {%- set decimals = digits[1] | int if digits else 0 %}
    {%- set largest = '0' ~ '9' * ((digits[0] | default('0')) | int - decimals) ~ '.' ~ '9' * decimals %}
    {%- set range = '-' ~ largest ~ ' and ' ~ largest if digits
        else '-9223372036854775808 and 9223372036854775807' %}
    {%- set added = '(' ~ texts | join(')::numeric * (') ~ ')::numeric' %}
    {%- set named = ('the value of ' if texts | length == 1 else 'the product of ') ~ measure.columns | join(' and ') %}
            when {{ is_summed }} and scale(trim_scale({{ added }})) > {{ decimals }}
                then {{ waltally.quote_literal(named ~ ' has more than ' ~ decimals ~ ' decimals') }}
            when {{ is_summed }} and {{ added }} not between {{ range }}
                then {{ waltally.quote_literal(named ~ ' does not fit ' ~ measure.type) }}
    {%- endif -%}
{%- endmacro %}
