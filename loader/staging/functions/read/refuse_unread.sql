-- Refuse, before anything is given to the server, what cdc.scan would not read as PostgreSQL does, names of ours, and
-- more than one statement.
create or replace function cdc.refuse_unread(query text, inputs jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    code constant text[] := array(
        select one.token from cdc.scan(query) as one where one.token !~ $re$^(\s|--|/\*)$re$ order by one.ordinal
    );
    refused record;
begin
    select said.reason, said.remedy into refused
    from cdc.scan(query) as one
    cross join lateral (
        values
        (
            one.token ~ '^/\*.*/\*' or one.token ~ '^\$',
            'A comment within a comment, or a text between dollars, is not read.', 'Write the text between quotation marks.'
        ),
        (
            one.token ~* '^"?waltally_' and not exists (
                select from jsonb_array_elements(inputs) as own
                where replace(trim('"' from one.token), '""', '"') = own ->> 'name'
            ), 'A name that begins with waltally_ is not read: such names are ours.', 'Give it another name.'
        )
    ) as said (is_so, reason, remedy)
    where said.is_so
    union all
    select 'Two texts that follow each other are not read.', 'Write one text between quotation marks.'
    from unnest(code) with ordinality as one (token, ordinal)
    where one.token ~* $re$^e?'$re$ and code[one.ordinal - 1] ~* $re$^e?'$re$
    union all
    select
        'A text or a name that begins with U& is not read.',
        'Write the characters themselves between quotation marks.'
    from (
        select own.token, lag(own.token, 2) over in_order || lag(own.token) over in_order as former
        from cdc.scan(query) as own
        window in_order as (order by own.ordinal)
    ) as one
    where one.token ~ $re$^['"]$re$ and one.former ~* '^u&$'
    union all
    select
        format('A cast to %s.%s, a type that is not built in.', one.token, code[one.ordinal + 2]),
        'Write a label alone beside an enum, `mood = ''sad''`, and any other column as `column::text`.'
    from unnest(code) with ordinality as one (token, ordinal)
    where
        code[one.ordinal + 1] = '.' and one.token not in ('pg_catalog', '"pg_catalog"')
        and (code[one.ordinal - 2:one.ordinal - 1] = '{:,:}' or code[one.ordinal - 1] ~* '^as$')
    union all
    select 'A model is one query, and this has several statements.', 'Write a model for each of them.'
    from unnest(code) with ordinality as one (token, ordinal)
    where one.token = ';' and one.ordinal < cardinality(code)
    limit 1;
    if found then
        raise exception '%', refused.reason using errcode = 'WL003', hint = refused.remedy;
    end if;
end
$$;
