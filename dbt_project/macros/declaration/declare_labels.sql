{# What values are called: {text of the value: label}. Of other types a value may have several texts. #}
{% macro declare_labels(name, given, type) %}
    {%- do waltally.check_declaration([
        [
            given is not mapping or not given or given.values() | reject('string') | list,
            'labels of dimension ' ~ name ~ ' is ' ~ given ~ "; it takes {value: name}, as in {'0': 'draft', '1': 'paid'}",
        ],
        [
            type not in ['smallint', 'integer', 'bigint', 'boolean', 'text'],
            'dimension ' ~ name ~ ' has labels and is of type ' ~ type
            ~ '; labels are for smallint, integer, bigint, boolean and text',
        ],
    ]) -%}
    {%- set labels = {} -%}
    {%- for value, label in given.items() -%}
        {%- set text = value | string | lower if value is boolean else value | string -%}
        {%- do waltally.check_declaration([
            [
                not modules.re.fullmatch({'text': '(?s).*', 'boolean': 'true|false'}.get(type, '0|-?[1-9][0-9]*'), text),
                'labels of dimension ' ~ name ~ ' has ' ~ value ~ ', which is no ' ~ type,
            ],
            [
                label.encode('utf-8') | length > 1000,
                'a label of dimension ' ~ name ~ ' has more than 1000 bytes; it takes a shorter one',
            ],
        ]) -%}
        {%- do labels.update({text: label}) -%}
    {%- endfor -%}
    {{ return(labels) }}
{% endmacro %}
