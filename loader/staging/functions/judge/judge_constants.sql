-- Constants that PostgreSQL reads in one way today, and in another tomorrow or under other settings: it is asked again
-- under these, and with another word where a text could be the clock's.
create or replace function cdc.judge_constants(
    named text, tree text, nodes cdc.tree_node[], has_timezone boolean
)
returns table (reason text, remedy text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- A date is read word by word: `10:00today` has two.
    clock constant text := '(?<![[:alpha:]])(now|today|tomorrow|yesterday)';
    trial record;
    content text;
    same boolean;
begin
    for trial in
        select * from (
            values
            ('DateStyle', 'ISO,DMY', 'a constant date that DateStyle decides how to read', 'ISO text: ''2026-02-01'''),
            ('DateStyle', 'ISO,MDY', 'a constant date that DateStyle decides how to read', 'ISO text: ''2026-02-01'''),
            ('IntervalStyle', 'sql_standard', 'a constant interval that IntervalStyle decides how to read', 'words: ''1 day 2 hours'''),
            ('TimeZone', 'Asia/Kathmandu', 'a constant moment without an offset',
                '`timezone=''Europe/Berlin''` (your zone) in the model''s config, or the offset: ''2026-02-01 00:00+00''')
        ) as settings (name, value, reason, remedy)
        where
            (settings.name <> 'TimeZone' or not has_timezone)
            and exists (
                select from unnest(nodes) as node
                where node.type = 'CONST' and not cdc.has_plain_text(cdc.node_type(node.fields), is_input => true)
            )
    loop
        begin
            perform set_config(trial.name, trial.value, true);
            select regexp_replace(again.tree, ':relid [0-9]+', '', 'g') = regexp_replace(judge_constants.tree, ':relid [0-9]+', '', 'g')
            into same
            from cdc.read_query(named) as again;
            -- Leaves nothing of the trial.
            raise exception using errcode = 'WL000';
        exception
            when sqlstate 'WL000' then null;
            when data_exception then same := false;
        end;
        if not same then
            return query select trial.reason, trial.remedy;
        end if;
    end loop;

    for trial in
        select one.ordinal, one.token from cdc.scan(named) as one where one.token ~* $re$^e?'$re$
    loop
        execute 'select ' || trial.token into content;
        continue when content !~* clock;
        begin
            perform cdc.read_query((
                select string_agg(
                    case when one.ordinal = trial.ordinal
                        then quote_literal(regexp_replace(content, clock, 'waltally', 'gi'))
                        else one.token end,
                    '' order by one.ordinal
                )
                from cdc.scan(named) as one
            ));
            raise exception using errcode = 'WL000';
        exception
            -- A label of an enum, and other texts that are no dates, may say so too. An expression that is written
            -- twice, as in GROUP BY, is no longer the same one: PostgreSQL notices after it has read its constants.
            when sqlstate 'WL000' or invalid_text_representation or grouping_error or invalid_column_reference then null;
            when data_exception then
                return query select
                    format('%s, which PostgreSQL reads off the clock once', quote_literal(content)),
                    'keep the time as a column, and compare with the clock in a view or in the query that reads the model';
        end;
    end loop;
end
$$;
