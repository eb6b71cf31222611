select 1 as skipped where false
