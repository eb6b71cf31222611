{%- set many = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'] if var('changed', '') == 'many' else [] %}
{{ waltally.fact(
    tables={'live': {
        'table': 'public.notifications',
        'columns': dict.fromkeys(many, 'key_type'),
    }},
    dimensions={'service_id': 'uuid', 'key_type': 'text'} if var('changed', '') == 'dimensions'
        else dict({'service_id': 'uuid'}, **dict.fromkeys(many, 'text')),
    measures={'count': {'count': 'live'}},
    where={'key_type': {'not_in': ['team']}} if var('changed', '') == 'where' else {},
    engine=var('changed') if var('changed', '') in ['spark', 'abacus'] else 'database',
    derived={'doubled': 'count * 2'} if var('changed', '') == 'derived' else {},
) }}
