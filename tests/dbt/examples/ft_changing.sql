{%- set more = 'abcdefghij' | list if var('changed', '') == 'dimensions' else [] %}
{{ waltally.fact(
    tables={'live': {
        'table': 'public.notifications',
        'columns': dict.fromkeys(more, 'key_type'),
    }},
    dimensions=dict({'service_id': 'uuid'}, **dict.fromkeys(['key_type'] + more if more else [], 'text')),
    measures={'count': {'count': 'live'}},
    engine='spark' if var('changed', '') == 'spark' else 'database',
    derived={'doubled': 'count * 2'} if var('changed', '') == 'derived' else {},
) }}
