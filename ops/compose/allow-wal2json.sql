-- What the loader needs of the server; `loader setup` would print the same statements.

alter system set wal_level = 'logical';

-- Newer releases allow a plugin only where it is listed; older ones do not know the setting.
select
    'alter system set output_plugin_libraries = '
    || string_agg(quote_literal(btrim(listed.name)), ', ')
from (
    select regexp_split_to_table(setting, ',') as name
    from pg_settings
    where name = 'output_plugin_libraries'
    union all
    select 'wal2json'
    from pg_settings
    where name = 'output_plugin_libraries'
) as listed
having count(*) > 0
\gexec
