-- Every fact, and every table of current rows, equals a recount of the source tables. It is off by
-- default, because it is right only while nothing writes to them: --vars 'recount: true'.
-- Purged rows stay counted, so a count of a table whose deletes are ignored may be above the
-- recount, and a sum of one is not compared. Where no row was ever purged, compare both exactly by
-- --vars '{recount: true, recount_archived: exact}'.
{{ waltally.recount_facts() if var('recount', false) else 'select 1 as skipped where false' }}
