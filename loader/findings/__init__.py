"""What can be wrong: a rule is a function over one State, a finding an error with its remedy. Pure.

A finding's class is what JSON and metrics call it. Who reports which findings is in `lists`.
"""
