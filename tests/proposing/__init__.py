"""`loader init --query`: queries of applications, rules, wrong rewritings, and the command."""
