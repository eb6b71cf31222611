{# Which rows count, for the fact or for a measure: [{column, test, values, is_null}]. A list's values are
   compared as texts; a bound is a number, or a date or time in UTC. #}
{% macro declare_conditions(where, of='') %}
    {%- set takes = "; it takes {'in': [values]}, {'not_in': [values]}, {'is_null': true}, "
        ~ "{'at_least': value} or {'below': value}" -%}
    {%- if where is not mapping -%}
        {%- do waltally.refuse_declaration(
            'where' ~ of ~ ' is ' ~ where ~ '; it takes {column: condition}, as in '
            ~ "{'state': {'in': ['paid']}}"
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for column, given in where.items() -%}
        {%- set named = 'where' ~ of ~ ' ' ~ column -%}
        {%- if given is not mapping or not given -%}
            {%- do waltally.refuse_declaration(named ~ ' is ' ~ given ~ takes) -%}
        {%- endif -%}
        {%- do waltally.refuse_unknown_keys(named, given, ['in', 'not_in', 'is_null', 'at_least', 'below']) -%}
        {%- for test, value in given.items() -%}
            {%- set texts = [] -%}
            {%- if test == 'is_null' -%}
                {%- if value is not boolean -%}
                    {%- do waltally.refuse_declaration(
                        named ~ ' is_null is ' ~ value ~ '; it takes true or false'
                    ) -%}
                {%- endif -%}
            {%- elif test in ['at_least', 'below'] -%}
                {%- do texts.append(waltally.declare_bound(named ~ ' ' ~ test, value)) -%}
            {%- elif value is string or value is mapping or value is not iterable or not value -%}
                {%- do waltally.refuse_declaration(
                    named ~ ' ' ~ test ~ ' is ' ~ value ~ '; it takes a list of values, one or more'
                ) -%}
            {%- else -%}
                {%- for each in value -%}
                    {%- if each is none -%}
                        {%- do waltally.refuse_declaration(
                            named ~ ' ' ~ test
                            ~ " has null, which equals nothing; it takes values, and {'is_null': true}"
                        ) -%}
                    {%- endif -%}
                    {%- do texts.append(each | string | lower if each is boolean else each | string) -%}
                {%- endfor -%}
            {%- endif -%}
            {%- do found.append({
                'column': column,
                'test': test,
                'values': texts,
                'is_null': value if test == 'is_null' else none,
            }) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
