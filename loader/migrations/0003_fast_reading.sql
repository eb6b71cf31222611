-- What lets a batch be read without parsing each payload in the database.

alter table change_log add column action "char";
comment on column change_log.action is
    'The plugin''s action letter, where the payload is JSON in the plugin''s own form; null where '
    'that was not established: readers then parse the payload themselves.';

-- A TRUNCATE cancels what came before it, so readers ask for it first.
create index change_log_truncates on change_log (slot_name, commit_lsn, ordinal)
    where action is null or action = 'T';

alter table model_watermark add column rejected_lsn pg_lsn;
comment on column model_watermark.rejected_lsn is
    'The newest change that the model could not count, or a later position; null where none.';
update model_watermark set rejected_lsn = applied_lsn;

-- One column of an image: an array of {"name": ..., "value": ...}, or the part of the plugin's
-- message that begins or ends with it. Null where the image lacks the column; a string that is
-- neither empty nor holds a backslash as it is; anything else as a backslash and its JSON. The models
-- read plain strings by themselves and call this for the rest.
create function image_value(image text, name text) returns text
language plpgsql immutable strict parallel unsafe set search_path from current as $$
declare
    key constant text := to_json(name)::text;
    token text;
    value jsonb;
begin
    if strpos(image, key) = 0 then
        return null;
    end if;
    -- Unescaped quotes are structure: inside a string each has a backslash before it.
    token := split_part(split_part(image, '{"name":' || key || ',"value":', 2), '}', 1);
    if token <> '' and left(token, 1) not in ('"', '[', '{') then
        return '\' || token;
    end if;
    token := case
        when image like '[%' then image
        when image like '{"action":%' then substr(image, strpos(image, '":[') + 2)
        else '[' || image
    end;
    value := jsonb_path_query_first(
        jsonb_or_null(rtrim(token, '} ')),
        '$[*] ? (@.name == $name).value',
        jsonb_build_object('name', name)
    );
    token := value #>> '{}';
    if jsonb_typeof(value) = 'string' and token <> '' and strpos(token, '\') = 0 then
        return token;
    end if;
    return '\' || value::text;
end
$$;

-- Where a batch that begins at from_lsn ends if it is to hold about so many changes: at the end of
-- a source transaction, to_lsn at the latest.
create function slice_end(slot text, from_lsn pg_lsn, to_lsn pg_lsn, changes bigint)
returns pg_lsn
language plpgsql stable set search_path from current as $$
declare
    first_lsn pg_lsn;
    last_lsn pg_lsn;
begin
    select log.commit_lsn into last_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    offset changes
    limit 1;
    if not found then
        return to_lsn;
    end if;

    select log.commit_lsn into first_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    if last_lsn > first_lsn then
        return last_lsn;
    end if;

    -- One transaction is larger than the slice: it goes whole.
    select log.commit_lsn into last_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn > first_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    return coalesce(last_lsn, to_lsn);
end
$$;
