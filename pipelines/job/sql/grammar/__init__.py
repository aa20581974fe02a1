"""The text of a script as a tree: its tokens, expressions and statements.

The grammar is the documented one and no more. Expressions become nodes of sqlglot, with calls as they are written. Its
own T-SQL parser is not used: it also reads what the language does not have, which would then have to be found and
refused in the tree; it binds ``&`` looser than ``+``; and it does not know TIMESTAMP BY, LIMIT DURATION and WHEN.
"""
