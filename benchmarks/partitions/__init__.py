"""How much WAL a slot holds back while its tables are idle."""
