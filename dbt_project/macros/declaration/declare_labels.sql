{# What values are called: {text of the value: label}. Of other types a value may have several texts. #}
{% macro declare_labels(name, given, type) %}
    {%- if given is not mapping or not given or given.values() | reject('string') | list -%}
        {%- do waltally.refuse_declaration(
            'labels of dimension ' ~ name ~ ' is ' ~ given ~ "; it takes {value: name}, as in {'0': 'draft', '1': 'paid'}"
        ) -%}
    {%- elif type not in ['smallint', 'integer', 'bigint', 'boolean', 'text'] -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has labels and is of type ' ~ type
            ~ '; labels are for smallint, integer, bigint, boolean and text'
        ) -%}
    {%- endif -%}
    {%- set found = {} -%}
    {%- for value, label in given.items() -%}
        {%- set text = value | string | lower if value is boolean else value | string -%}
        {%- if not modules.re.fullmatch({'text': '(?s).*', 'boolean': 'true|false'}.get(type, '0|-?[1-9][0-9]*'), text) -%}
            {%- do waltally.refuse_declaration(
                'labels of dimension ' ~ name ~ ' has ' ~ value ~ ', which is no ' ~ type
            ) -%}
        {%- elif label.encode('utf-8') | length > 1000 -%}
            {%- do waltally.refuse_declaration(
                'a label of dimension ' ~ name ~ ' has more than 1000 bytes; it takes a shorter one'
            ) -%}
        {%- endif -%}
        {%- do found.update({text: label}) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
