-- Hex (hexpm/hexpm)
-- tables
create table downloads (id bigint primary key, package_id integer not null, release_id integer not null, day date not null, downloads integer not null);

-- query
select d.package_id, v.span, sum(d.downloads) as downloads
from downloads as d cross join (values ('day'), ('week'), ('recent'), ('all')) as v (span)
where case v.span when 'day' then d.day = current_date - 1 when 'week' then d.day between current_date - 7 and current_date - 1
    when 'recent' then d.day between current_date - 90 and current_date - 1 else true end
group by d.package_id, v.span
union
select null, 'recent', sum(downloads) from downloads where day between current_date - 90 and current_date - 1;
