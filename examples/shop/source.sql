-- A shop's tables as an application framework made them: mixed case, blanks, even a comma.

create schema "Web Shop";

create table "Web Shop"."Shops" (
    "Shop id" integer primary key,
    "Name" text not null
);

create table "Web Shop"."Orders" (
    "Shop id" integer not null references "Web Shop"."Shops",
    "Order no" bigint not null,
    -- Null where nobody knows how the order came.
    "Channel" text,
    "Status" text not null,
    "placedAt" timestamptz not null,
    -- A refund is an order with a negative total. Null until the order is priced.
    "Total, gross" numeric(12, 4) check ("Total, gross" <> 'NaN'),
    "Comment" text,
    primary key ("Shop id", "Order no")
);

-- An old row must say which day and channel lose how much. Two of these columns may be null, so no
-- unique index can carry them. And a total may not be NaN, which a change could not say.
alter table "Web Shop"."Orders" replica identity full;

create sequence "Web Shop"."Order numbers";
