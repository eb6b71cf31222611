-- Why a model that follows is to be audited; null where nothing has changed.
create or replace function cdc.explain_meaning(changed text[]) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
    return format(
        'the server''s %s changed since it was counted or audited, and with that perhaps what its query gives',
        array_to_string(changed, ' and ')
    );
end
$$;
