{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'service_id': 'uuid', 'key_type': 'text'} if var('changed', '') == 'dimensions'
        else {'service_id': 'uuid'},
    measures={'count': {'count': 'live'}},
    where={'key_type': {'not_in': ['team']}} if var('changed', '') == 'where' else {},
    derived={'doubled': 'count * 2'} if var('changed', '') == 'derived' else {},
) }}
