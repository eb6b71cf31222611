{# The image of a row as wal2json prints it: the table's usual row, changed as the test says.
   `absent` names the columns to leave out. #}
{% macro make_image(changed, table) %}
    {%- set notification = {
        'service_id': '11111111-1111-1111-1111-111111111111',
        'template_id': '22222222-2222-2222-2222-222222222222',
        'notification_type': 'email',
        'notification_status': 'created',
    } -%}
    {%- set order = {
        'id': 1,
        'Channel': 'web',
        'placed_at': '2026-07-01 12:00:00',
        'amount': 10.00,
        'units': 3,
        'state': 'paid',
        'is_test': false,
    } -%}
    {%- set refund = {
        'id': 1,
        'source': 'web',
        'refunded_at': '2026-07-02 12:00:00+00',
        'value': 4.50,
        'state': 'paid',
        'is_test': false,
    } -%}
    {%- set typed = {
        'flag': true,
        'small': 1,
        'whole': 1,
        'big': 1,
        'price': 1.50,
        'on_day': '2026-07-01',
        'at_time': '2026-07-01 12:00:00',
        'at_moment': '2026-07-01 12:00:00+00',
        'units': 1,
        'state': 1,
        'is_open': true,
        'details': '{}',
    } -%}
    {%- set row = dict({
        'public.notifications': notification,
        'public.notification_history': notification,
        'shop.orders': order,
        'shop.refunds': refund,
        'shop.typed': typed,
    }.get(table, notification)) -%}
    {%- do row.update(changed) -%}
    {%- set absent = row.pop('absent', []) -%}
    {%- set image = [] -%}
    {%- for name, value in row.items() if name not in absent -%}
        {%- do image.append('{"name":' ~ tojson(name) ~ ',"value":' ~ tojson(value) ~ '}') -%}
    {%- endfor -%}
    [{{ image | join(',') }}]
{%- endmacro %}
