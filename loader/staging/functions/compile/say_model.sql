-- What a compiled model is, how it is kept, and what a person should know of its joins and of large values: for the
-- log of dbt and of setup.
create or replace function cdc.say_model(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select concat_ws(
        '; ', cdc.describe_model(compiled), (select string_agg(note, '; ') from cdc.join_notes(compiled) as note),
        case
            when compiled -> 'large_columns' <> '[]' and not (compiled ->> 'has_old_rows')::boolean then format(
                'an update that leaves a large value of %s alone may need a seed, unless `alter table %s replica identity full;`',
                (select string_agg(name, ', ') from jsonb_array_elements_text(compiled -> 'large_columns') as name),
                compiled #>> '{sources,0,table}'
            )
        end
    )
$$;
