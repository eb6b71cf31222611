{# What a roll-up can take of a declared model: {dimensions: {name: type}, measures: {name: type}, present:
   measure, kind}. Nothing of a model that is none of ours. #}
{% macro describe_columns(node) %}
    {%- set meta = (node or {}).get('config', {}).get('meta', {}) -%}
    {%- set found = {'kind': none, 'dimensions': {}, 'measures': {}, 'present': none} -%}
    {%- if 'waltally' in meta -%}
        {%- do found.update({'kind': meta.waltally.kind}) -%}
        {%- for column in meta.waltally.dimensions -%}
            {%- do found.dimensions.update({column.name: column.type}) -%}
        {%- endfor -%}
        {%- for measure in (meta.waltally.measures if found.kind == 'fact' else []) -%}
            {%- do found.measures.update({measure.name: measure.type}) -%}
            {%- if measure.kind == 'count' and not found.present -%}
                {%- do found.update({'present': measure.name}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- elif 'waltally_roll_up' in meta -%}
        {%- set resolved = waltally.resolve_roll_up(node) -%}
        {%- do found.update({'kind': 'roll_up'}) -%}
        {%- for column in resolved.dimensions -%}
            {%- do found.dimensions.update({column.name: column.type}) -%}
        {%- endfor -%}
        {%- for measure in resolved.measures -%}
            {%- do found.measures.update({measure.name: measure.type}) -%}
            {%- if measure.kind == 'sum' and not found.present -%}
                {%- do found.update({'present': measure.name}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}
