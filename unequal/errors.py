"""The one exception that a user is meant to read."""


class UserError(Exception):
    """Bad input of any kind, said in one line: what is wrong, where, and what is allowed.

    Stages print the line and exit with status 1; a library user may catch it.
    """
