-- A source like the real notification service's of August 2026: the columns the pipeline needs,
-- a few it must not care about, and its nullability. Replica identity is left at its default.

create type notification_type as enum ('email', 'sms', 'letter');

create table services (
    id uuid primary key default gen_random_uuid(),
    name text not null
);

create table templates (
    id uuid primary key default gen_random_uuid(),
    service_id uuid not null references services (id),
    template_type notification_type not null,
    name text not null
);

create table notifications (
    id uuid primary key default gen_random_uuid(),
    "to" text not null,
    normalised_to text,
    service_id uuid references services (id),
    template_id uuid references templates (id),
    template_version integer not null default 1,
    job_id uuid,
    key_type text not null default 'normal',
    billable_units integer not null default 0,
    notification_type notification_type not null,
    notification_status text,
    created_at timestamp not null default now(),
    sent_at timestamp,
    updated_at timestamp,
    reference text,
    personalisation text,
    international boolean not null default false
);

create table notification_history (
    id uuid primary key,
    service_id uuid references services (id),
    template_id uuid references templates (id),
    template_version integer not null default 1,
    job_id uuid,
    key_type text not null default 'normal',
    billable_units integer not null default 0,
    notification_type notification_type not null,
    notification_status text,
    created_at timestamp not null,
    sent_at timestamp,
    updated_at timestamp,
    reference text,
    international boolean not null default false
);

-- Traffic that has nothing to do with the counts.
create table unrelated (
    id bigint generated always as identity primary key,
    note text
);
