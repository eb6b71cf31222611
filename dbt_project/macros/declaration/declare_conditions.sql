{# Which rows count: [{column, test, values, is_null}]. Values are compared as texts. #}
{% macro declare_conditions(where) %}
    {%- set takes = "; it takes {'in': [values]}, {'not_in': [values]} or {'is_null': true}" -%}
    {%- if where is not mapping -%}
        {%- do waltally.refuse_declaration(
            "where is " ~ where ~ "; it takes {column: {'in': [values]}}, 'not_in' or 'is_null'"
        ) -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for column, given in where.items() -%}
        {%- if given is not mapping or not given -%}
            {%- do waltally.refuse_declaration('where ' ~ column ~ ' is ' ~ given ~ takes) -%}
        {%- endif -%}
        {%- do waltally.refuse_unknown_keys('where ' ~ column, given, ['in', 'not_in', 'is_null']) -%}
        {%- for test, value in given.items() -%}
            {%- set texts = [] -%}
            {%- if test == 'is_null' -%}
                {%- if value is not boolean -%}
                    {%- do waltally.refuse_declaration(
                        'where ' ~ column ~ ' is_null is ' ~ value ~ '; it takes true or false'
                    ) -%}
                {%- endif -%}
            {%- elif value is string or value is mapping or value is not iterable or not value -%}
                {%- do waltally.refuse_declaration(
                    'where ' ~ column ~ ' ' ~ test ~ ' is ' ~ value
                    ~ '; it takes a list of values, one or more'
                ) -%}
            {%- else -%}
                {%- for each in value -%}
                    {%- if each is none -%}
                        {%- do waltally.refuse_declaration(
                            'where ' ~ column ~ ' ' ~ test
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
