{{ config(indexes=[{'columns': ['service_id', 'key_type'], 'unique': true}]) }}

{{ additive_fact(
    dimensions={'service_id': 'uuid', 'key_type': 'text'},
    additive={'count': {'part': 'live'}},
) }}
