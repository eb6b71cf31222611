-- What to do with a model that another slot feeds: follow that one, write a model of each, or move the model for good.
create or replace function cdc.explain_move(other_slot text, slot text, model text, name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'set LOADER_SLOT=%1$s, or write a model for each slot, and one that reads both by ref(); to move it to %2$s for good: '
        'delete from %5$smodel_watermark where relation = %3$L and slot_name = %1$L; '
        'delete from %5$sinstalled_model where relation = %3$L and slot_name = %1$L; '
        'delete from %5$signored_delete where relation = %3$L and slot_name = %1$L; '
        '-- then `spark-submit spark/seed.py --model %4$s`',
        other_slot, slot, model, name, 'cdc.'
    )
$$;
