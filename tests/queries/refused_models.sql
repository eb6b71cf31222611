-- Queries over models that are refused. Before each a part of the reason, and after a bar a part of what to write.

-- project stands on both sides of a LEFT JOIN | a second model of the same rows
select count(*) as n from {project} p left join {project} q on q.id = p.owner

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p left join {app_user} u on u.id > p.owner

-- ORDER BY in an aggregate | the aggregated value itself first in ORDER BY
select owner, cdc.percentile_disc(0.5, array_agg(id order by id), array_agg(id order by is_open))
    as n from {project} group by 1

-- max() cannot be taken back row by row | a fact over these models that also groups by the value
select owner, max(p.id) as n from {project} p join {app_user} u on u.id = p.owner group by 1
