{# What a roll-up is made of, once dbt knows all models: its declaration with types, relations and SQL. In that
   SQL f is a row of the finer fact, and l0, l1, ... are rows of the lookups. Whatever does not fit is refused. #}
{% macro resolve_roll_up(node=model) %}
    {%- set declared = node.config.meta.waltally_roll_up -%}
    {%- set fact = waltally.find_input(node.refs[0]) -%}
    {%- set columns = waltally.describe_columns(fact) -%}
    {%- if columns.kind not in ['fact', 'roll_up'] -%}
        {%- do waltally.refuse_declaration(
            'fact is ' ~ node.refs[0].name ~ '; it takes ref() of a fact or a roll-up, before lookups'
        ) -%}
    {%- endif -%}
    {%- set present = declared.present or columns.present -%}
    {%- do waltally.check_column('present', present, columns.measures) -%}
    {%- set resolved = {
        'kind': 'roll_up',
        'fact': waltally.show_relation(fact),
        'fact_place': [fact.schema, fact.alias],
        'present_column': present,
        'present': 'f.' ~ waltally.quote_name(present),
        'lookups': [],
        'dimensions': [],
        'measures': [],
        'values': [],
        'inputs': waltally.list_inputs(node),
    } -%}
    {#- {text of the declaration: {alias, sql, type}} -#}
    {%- set known = {} -%}
    {%- for name, type in columns.dimensions.items() -%}
        {%- do known.update({name: {
            'alias': 'f', 'column': name, 'sql': 'f.' ~ waltally.quote_name(name), 'type': type
        }}) -%}
    {%- endfor -%}
    {%- for lookup in declared.lookups -%}
        {%- set rows = waltally.find_input(node.refs[loop.index]) -%}
        {%- set found = waltally.describe_columns(rows) -%}
        {%- if found.kind != 'current_rows' -%}
            {%- do waltally.refuse_declaration(
                'rows of lookup ' ~ lookup.name ~ ' is ' ~ node.refs[loop.index].name
                ~ '; it takes ref() of a model of current_rows'
            ) -%}
        {%- elif rows.config.meta.waltally.key | sort != lookup.by.keys() | sort -%}
            {%- do waltally.refuse_declaration(
                'lookup ' ~ lookup.name ~ ' is by ' ~ lookup.by.keys() | join(', ') ~ '; it takes the key of '
                ~ rows.name ~ ': ' ~ rows.config.meta.waltally.key | join(', ')
            ) -%}
        {%- endif -%}
        {%- set alias = 'l' ~ loop.index0 -%}
        {%- set by = {} -%}
        {%- for key, source in lookup.by.items() -%}
            {%- do waltally.check_column('lookup ' ~ lookup.name, source, known) -%}
            {%- do by.update({waltally.quote_name(key): dict(known[source], key=key)}) -%}
        {%- endfor -%}
        {%- for name, type in found.dimensions.items() -%}
            {%- do known.update({lookup.name ~ '.' ~ name: {
                'alias': alias, 'column': name, 'sql': alias ~ '.' ~ waltally.quote_name(name), 'type': type
            }}) -%}
        {%- endfor -%}
        {%- do resolved.lookups.append({
            'alias': alias, 'relation': waltally.show_relation(rows), 'place': [rows.schema, rows.alias], 'by': by,
        }) -%}
    {%- endfor -%}
    {%- for dimension in declared.dimensions -%}
        {%- do waltally.check_column('dimension ' ~ dimension.name, dimension.of, known) -%}
        {%- do resolved.dimensions.append(dict(known[dimension.of], name=dimension.name, nulls='count')) -%}
    {%- endfor -%}
    {#- What a measure of the fact is in each group has a minimum too. -#}
    {%- for name, type in columns.measures.items() -%}
        {%- do known.update({name: {'alias': 'f', 'column': name, 'sql': 'f.' ~ waltally.quote_name(name), 'type': type}}) -%}
    {%- endfor -%}
    {%- for measure in declared.measures -%}
        {%- do waltally.check_column(
            measure.kind ~ ' of measure ' ~ measure.name, measure.of, columns.measures if measure.kind == 'sum' else known
        ) -%}
        {%- if measure.kind == 'sum' -%}
            {%- do resolved.measures.append({
                'name': measure.name, 'kind': 'sum', 'column': measure.of, 'sql': 'f.' ~ waltally.quote_name(measure.of),
                'type': columns.measures[measure.of],
            }) -%}
        {%- else -%}
            {%- if measure.of not in resolved['values'] | map(attribute='of') -%}
                {%- do resolved['values'].append(dict(known[measure.of], of=measure.of)) -%}
            {%- endif -%}
            {%- do resolved.measures.append({
                'name': measure.name, 'kind': measure.kind, 'fraction': measure.fraction,
                'value': (resolved['values'] | map(attribute='of') | list).index(measure.of),
                'type': 'bigint' if measure.kind == 'distinct' else known[measure.of].type,
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set sources = resolved.dimensions + resolved['values'] -%}
    {%- for lookup in resolved.lookups -%}
        {%- do sources.extend(lookup.by.values()) -%}
    {%- endfor -%}
    {%- for lookup in resolved.lookups -%}
        {%- do lookup.update({'taken': []}) -%}
        {%- for column in sources | selectattr('alias', 'equalto', lookup.alias) | map(attribute='column') | unique -%}
            {%- do lookup.taken.append(waltally.quote_name(column) | string) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(resolved) }}
{% endmacro %}
