{# What a roll-up is made of, once dbt knows all models: its declaration with types, relations and SQL. In that
   SQL f is a row of the finer fact, and l0, l1, ... are rows of the lookups. Whatever does not fit is refused.

   declared  what declare_roll_up gave.
   finer     the relation of the finer fact, which ref() gave.
   rows      by lookup the relation of its current rows.

   `made_of` of the result has by model's key the declaration that each input was resolved by. None where the finer fact
   is a roll-up that is not installed yet. #}
{% macro resolve_roll_up(declared, finer, rows) %}
    {%- set fact = waltally.find_input(finer) -%}
    {%- if fact.is_missing -%}
        {{ return(none) }}
    {%- elif fact.kind not in ['fact', 'roll_up'] -%}
        {%- do waltally.refuse_declaration(
            'fact is ' ~ (finer.identifier or finer) ~ '; use ref() of a fact or a roll-up'
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
        'fact_columns': fact.columns, 'lookups': [], 'dimensions': [], 'measures': [], 'values': [],
        'inputs': fact.inputs, 'made_of': {fact.key_name: fact.declared},
    } -%}
    {#- By its text in the declaration what a column is: {alias, column, sql, type}. -#}
    {%- set known = {} -%}
    {%- for column in fact.dimensions -%}
        {%- do known.update({column.name: waltally.describe_column('f', fact, column)}) -%}
    {%- endfor -%}
    {%- for lookup in declared.lookups -%}
        {%- set what = 'lookup ' ~ lookup.name -%}
        {%- set parent = waltally.find_input(rows[lookup.name]) -%}
        {%- set called = rows[lookup.name].identifier or rows[lookup.name] -%}
        {%- if parent.kind != 'current_rows' -%}
            {%- do waltally.refuse_declaration(
                'rows of ' ~ what ~ ' is ' ~ called ~ '; use ref() of a model of current_rows'
            ) -%}
        {%- elif parent.key | sort != lookup.by.keys() | sort -%}
            {%- do waltally.refuse_declaration(
                what ~ ' is by ' ~ lookup.by.keys() | join(', ') ~ '; use the key of '
                ~ called ~ ': ' ~ parent.key | join(', ')
            ) -%}
        {%- endif -%}
        {%- set alias = 'l' ~ loop.index0 -%}
        {%- set by = {} -%}
        {%- for key, of in lookup.by.items() -%}
            {%- do waltally.check_column(what, of, known) -%}
            {%- do by.update({key: dict(known[of], key=key)}) -%}
        {%- endfor -%}
        {%- for column in parent.dimensions -%}
            {%- do known.update({lookup.name ~ '.' ~ column.name: waltally.describe_column(alias, parent, column)}) -%}
        {%- endfor -%}
        {%- do resolved.lookups.append({
            'name': lookup.name, 'alias': alias, 'relation': parent.relation, 'place': parent.place, 'by': by,
            'columns': parent.columns,
        }) -%}
        {%- do resolved.inputs.extend(parent.inputs | reject('in', resolved.inputs)) -%}
        {%- do resolved.made_of.update({parent.key_name: parent.declared}) -%}
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
            {%- do resolved.measures.append(dict(
                column, name=measure.name, kind='sum', type=waltally.type_sum(measure, column)
            )) -%}
        {%- else -%}
            {%- if column not in resolved['values'] -%}
                {%- do resolved['values'].append(column) -%}
            {%- endif -%}
            {%- do resolved.measures.append({
                'name': measure.name, 'kind': measure.kind, 'fraction': measure.fraction,
                'value': resolved['values'].index(column),
                'type': 'bigint' if measure.kind == 'distinct' else column.type,
                'is_count': measure.kind == 'distinct',
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

{# What a roll-up can take of the model that has a relation: kind, relation, dimensions, measures, key, and the models
   that it is made of. Of another roll-up that is what is installed: only there stands which models its ref()s gave. #}
{% macro find_input(relation) %}
    {%- set node = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('schema', 'equalto', relation.schema) | selectattr('alias', 'equalto', relation.identifier)
        | first | default({'config': {'meta': {}}}) -%}
    {%- set key_name = relation.schema ~ '.' ~ relation.identifier -%}
    {%- set is_roll_up = 'waltally_roll_up' in node.config.meta -%}
    {%- set declared = (waltally.read_installed(key_name) if is_roll_up else node.config.meta.get('waltally')) or {} -%}
    {%- set measures = [] -%}
    {%- for measure in declared.get('measures', []) -%}
        {%- do measures.append(dict(measure, is_count=measure.get('is_count', measure.kind == 'count'))) -%}
    {%- endfor -%}
    {%- set columns = [] -%}
    {%- for column in declared.get('dimensions', []) + (measures if declared.get('kind') != 'current_rows' else []) -%}
        {%- do columns.append({'name': column.name, 'type': column.type}) -%}
    {%- endfor -%}
    {{ return({
        'kind': declared.get('kind'),
        'is_missing': is_roll_up and not declared,
        'relation': waltally.quote_name(relation.schema) ~ '.' ~ waltally.quote_name(relation.identifier)
            if declared,
        'place': [relation.schema, relation.identifier],
        'key_name': key_name,
        'declared': declared,
        'dimensions': declared.get('dimensions', []),
        'measures': measures,
        'columns': columns,
        'key': declared.get('key', []),
        'inputs': declared.get('inputs', []) + [key_name],
    }) }}
{% endmacro %}

{# The declaration of a roll-up as it is installed; none where it is not. #}
{% macro read_installed(key_name) %}
    {%- set roll_up = waltally.get_staging_schema() ~ '.roll_up' -%}
    {%- set is_there = run_query('select to_regclass(' ~ waltally.quote_literal(roll_up) ~ ') is not null') -%}
    {%- set found = run_query(
        'select declaration::text from ' ~ roll_up ~ ' where model_name = ' ~ waltally.quote_literal(key_name)
    ).rows if is_there.rows[0][0] else [] -%}
    {{ return(fromjson(found[0][0]) if found else none) }}
{% endmacro %}

{# The type of a roll-up's sum. It has room for any total: rows are counted in a bigint, and whatever else is added up
   in a numeric. A declared type must not round what it adds. #}
{% macro type_sum(measure, column) %}
    {%- if measure.type is none -%}
        {{ return('bigint' if column.is_count else 'numeric') }}
    {%- endif -%}
    {%- set scale = 0 if column.type == 'bigint'
        else (modules.re.findall('[0-9]+', column.type) + [none, none])[1] -%}
    {%- set own = 0 if measure.type == 'bigint'
        else (modules.re.findall('[0-9]+', measure.type) + [none, none])[1] -%}
    {%- if own is not none and (scale is none or own | int < scale | int) -%}
        {%- do waltally.refuse_declaration(
            'sum of measure ' ~ measure.name ~ ' is of type ' ~ measure.type ~ ', which would round '
            ~ measure.of ~ ' of type ' ~ column.type ~ '; use a type of as many decimals, or none'
        ) -%}
    {%- endif -%}
    {{ return(measure.type) }}
{% endmacro %}

{# A column of an input, which the SQL of a roll-up calls by an alias. #}
{% macro describe_column(alias, input, column) %}
    {{ return({
        'alias': alias, 'relation': input.relation, 'column': column.name, 'type': column.type,
        'sql': alias ~ '.' ~ waltally.quote_name(column.name), 'is_count': column.get('is_count', false),
    }) }}
{% endmacro %}

{# Refuse a column that a roll-up cannot take. #}
{% macro check_column(what, column, known) %}
    {%- if column not in known -%}
        {%- do waltally.refuse_declaration(what ~ ' is ' ~ column ~ '; use one of ' ~ known | join(', ')) -%}
    {%- endif -%}
{% endmacro %}
