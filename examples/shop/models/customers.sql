{{ waltally.current_rows(
    table='"Web Shop"."Customers"',
    key=['Customer no'],
    columns={'Customer no': 'bigint', 'Name': 'text', 'Region': 'text'},
) }}
