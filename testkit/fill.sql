-- Deterministic for one set of parameters: every random() of a statement follows its setseed.
-- Skewed as real traffic is: a few templates and a few statuses have most of the rows.

insert into services (id, name)
select
    md5(%(seed)s || ' service ' || n)::uuid,
    'service ' || n
from generate_series(1, %(services)s) as n;

insert into templates (id, service_id, template_type, name)
select
    md5(%(seed)s || ' template ' || n)::uuid,
    md5(%(seed)s || ' service ' || 1 + n %% %(services)s)::uuid,
    (array['email', 'sms', 'letter'])[1 + n %% 3]::notification_type,
    'template ' || n
from generate_series(1, %(templates)s) as n;

create temporary table numbered_templates on commit drop as
select
    row_number() over (order by id) as place,
    id as template_id,
    service_id,
    template_type
from templates;

select setseed(%(seed)s %% 1000 / 1000.0);

insert into notifications (
    id, "to", service_id, template_id, key_type, notification_type, notification_status,
    created_at, reference
)
select
    md5(%(seed)s || ' live ' || rolled.n)::uuid,
    'user' || rolled.n || '@example.gov.uk',
    case when rolled.odd >= %(null_share)s then template.service_id end,
    case when rolled.odd >= %(null_share)s * 2 then template.template_id end,
    case when rolled.odd < 0.05 then 'test' when rolled.odd < 0.15 then 'team' else 'normal' end,
    template.template_type,
    case when rolled.odd < 1 - %(null_share)s then
        (array['created', 'sending', 'sending', 'pending', 'sent', 'delivered', 'delivered',
               'delivered', 'temporary-failure', 'permanent-failure'])[1 + rolled.status]
    end,
    timestamp '2026-11-01' - rolled.age * interval '7 days',
    'reference ' || rolled.n
from (
    select
        n,
        1 + floor(power(random(), 2) * %(templates)s)::integer as place,
        floor(random() * 10)::integer as status,
        random() as odd,
        random() as age
    from generate_series(1, %(live_rows)s) as n
) as rolled
inner join numbered_templates as template on template.place = rolled.place;

insert into notification_history (
    id, service_id, template_id, key_type, notification_type, notification_status, created_at,
    reference
)
select
    md5(%(seed)s || ' history ' || rolled.n)::uuid,
    case when rolled.odd >= %(null_share)s then template.service_id end,
    case when rolled.odd >= %(null_share)s * 2 then template.template_id end,
    case when rolled.odd < 0.1 then 'team' else 'normal' end,
    template.template_type,
    case when rolled.odd < 1 - %(null_share)s then
        (array['delivered', 'delivered', 'delivered', 'delivered', 'delivered', 'delivered',
               'sending', 'temporary-failure', 'permanent-failure', 'technical-failure']
        )[1 + rolled.status]
    end,
    timestamp '2026-10-25' - rolled.age * interval '2 years',
    'reference ' || rolled.n
from (
    select
        n,
        1 + floor(power(random(), 2) * %(templates)s)::integer as place,
        floor(random() * 10)::integer as status,
        random() as odd,
        random() as age
    from generate_series(1, %(history_rows)s) as n
) as rolled
inner join numbered_templates as template on template.place = rolled.place;
