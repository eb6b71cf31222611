select revenue from {{ ref('forecast_revenue') }}
