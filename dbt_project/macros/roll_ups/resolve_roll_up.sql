{# What a roll-up is made of, once dbt knows all models: its declaration with types, relations and SQL. In that
   SQL f is a row of the finer fact, and l0, l1, ... are rows of the lookups. Whatever does not fit is refused. #}
{% macro resolve_roll_up(node=model) %}
    {%- set declared = node.config.meta.waltally_roll_up -%}
    {%- set fact = waltally.find_input(node.refs[0]) -%}
    {%- if fact.kind not in ['fact', 'roll_up'] -%}
        {%- do waltally.refuse_declaration(
            'fact is ' ~ node.refs[0].name ~ '; use ref() of a fact or a roll-up, before lookups'
        ) -%}
    {%- endif -%}
    {%- set present = declared.present or (
        fact.measures | selectattr('kind', 'equalto', 'count' if fact.kind == 'fact' else 'sum')
        | map(attribute='name') | first | default(none)
    ) -%}
    {%- set measured = fact.measures | map(attribute='name') | list -%}
    {%- do waltally.check_column('present', present, measured) -%}
    {%- set resolved = {
        'kind': 'roll_up', 'fact': fact.relation, 'fact_place': fact.place, 'present_column': present,
        'present': 'f.' ~ waltally.quote_name(present),
        'lookups': [], 'dimensions': [], 'measures': [], 'values': [], 'inputs': fact.inputs,
    } -%}
    {#- By its text in the declaration what a column is: {alias, column, sql, type}. -#}
    {%- set known = {} -%}
    {%- for column in fact.dimensions -%}
        {%- do known.update({column.name: waltally.describe_column('f', fact, column)}) -%}
    {%- endfor -%}
    {%- for lookup in declared.lookups -%}
        {%- set what = 'lookup ' ~ lookup.name -%}
        {%- set rows = waltally.find_input(node.refs[loop.index]) -%}
        {%- if rows.kind != 'current_rows' -%}
            {%- do waltally.refuse_declaration(
                'rows of ' ~ what ~ ' is ' ~ node.refs[loop.index].name
                ~ '; use ref() of a model of current_rows'
            ) -%}
        {%- elif rows.key | sort != lookup.by.keys() | sort -%}
            {%- do waltally.refuse_declaration(
                what ~ ' is by ' ~ lookup.by.keys() | join(', ') ~ '; use the key of '
                ~ node.refs[loop.index].name ~ ': ' ~ rows.key | join(', ')
            ) -%}
        {%- endif -%}
        {%- set alias = 'l' ~ loop.index0 -%}
        {%- set by = {} -%}
        {%- for key, of in lookup.by.items() -%}
            {%- do waltally.check_column(what, of, known) -%}
            {%- do by.update({key: dict(known[of], key=key)}) -%}
        {%- endfor -%}
        {%- for column in rows.dimensions -%}
            {%- do known.update({lookup.name ~ '.' ~ column.name: waltally.describe_column(alias, rows, column)}) -%}
        {%- endfor -%}
        {%- do resolved.lookups.append({'alias': alias, 'relation': rows.relation, 'place': rows.place, 'by': by}) -%}
        {%- do resolved.inputs.extend(rows.inputs | reject('in', resolved.inputs)) -%}
    {%- endfor -%}
    {%- for dimension in declared.dimensions -%}
        {%- do waltally.check_column('dimension ' ~ dimension.name, dimension.of, known) -%}
        {%- do resolved.dimensions.append(dict(known[dimension.of], name=dimension.name, nulls='count')) -%}
    {%- endfor -%}
    {#- What a measure of the fact is in each group has a minimum too. -#}
    {%- for column in fact.measures -%}
        {%- do known.update({column.name: waltally.describe_column('f', fact, column)}) -%}
    {%- endfor -%}
    {%- for measure in declared.measures -%}
        {%- do waltally.check_column(
            measure.kind ~ ' of measure ' ~ measure.name, measure.of, measured if measure.kind == 'sum' else known
        ) -%}
        {%- set column = known[measure.of] -%}
        {%- if measure.kind == 'sum' -%}
            {%- do resolved.measures.append(dict(column, name=measure.name, kind='sum')) -%}
        {%- else -%}
            {%- if column not in resolved['values'] -%}
                {%- do resolved['values'].append(column) -%}
            {%- endif -%}
            {%- do resolved.measures.append({
                'name': measure.name, 'kind': measure.kind, 'fraction': measure.fraction,
                'value': resolved['values'].index(column),
                'type': 'bigint' if measure.kind == 'distinct' else column.type,
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {#- Which columns of a lookup matter: where no other changes, nothing moves. -#}
    {%- set taken = resolved.dimensions + resolved['values'] -%}
    {%- for lookup in resolved.lookups -%}
        {%- do taken.extend(lookup.by.values()) -%}
    {%- endfor -%}
    {%- for lookup in resolved.lookups -%}
        {%- do lookup.update({'taken': taken | selectattr('alias', 'equalto', lookup.alias)
            | map(attribute='column') | unique | list}) -%}
    {%- endfor -%}
    {{ return(resolved) }}
{% endmacro %}

{# What a roll-up can take of the model that a ref() names: kind, relation, dimensions, measures, key, and the models
   that it is made of. dbt finds the root project's model first, then one of the same package, then any. #}
{% macro find_input(reference) %}
    {%- set named = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('name', 'equalto', reference.name) | list -%}
    {%- set found = [] -%}
    {%- for package in ([reference.package] if reference.package else [project_name, model.package_name]) -%}
        {%- do found.extend(named | selectattr('package_name', 'equalto', package)) -%}
    {%- endfor -%}
    {%- set node = (found or ([] if reference.package else named)) | first | default({'config': {'meta': {}}}) -%}
    {%- set is_roll_up = 'waltally_roll_up' in node.config.meta -%}
    {%- set declared = waltally.resolve_roll_up(node) if is_roll_up else node.config.meta.get('waltally', {}) -%}
    {{ return({
        'kind': declared.get('kind'),
        'relation': waltally.quote_name(node.schema) ~ '.' ~ waltally.quote_name(node.alias) if declared,
        'place': [node.schema, node.alias],
        'dimensions': declared.get('dimensions', []),
        'measures': declared.get('measures', []),
        'key': declared.get('key', []),
        'inputs': declared.get('inputs', []) + [node.schema ~ '.' ~ node.alias],
    }) }}
{% endmacro %}

{# A column of an input, which the SQL of a roll-up calls by an alias. #}
{% macro describe_column(alias, input, column) %}
    {{ return({
        'alias': alias, 'relation': input.relation, 'column': column.name, 'type': column.type,
        'sql': alias ~ '.' ~ waltally.quote_name(column.name),
    }) }}
{% endmacro %}

{# Refuse a column that a roll-up cannot take. #}
{% macro check_column(what, column, known) %}
    {%- if column not in known -%}
        {%- do waltally.refuse_declaration(what ~ ' is ' ~ column ~ '; use one of ' ~ known | join(', ')) -%}
    {%- endif -%}
{% endmacro %}
