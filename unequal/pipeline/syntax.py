"""What a module's source says, in a form that is equal on Python 3.11 to 3.14 and blind to comments.

`ast.dump` differs between versions: it shows fields that later ones have added, empty as they are, and prints
characters or not as the version's Unicode tables say.
"""

import ast

#: Fields that change nothing that a program does: how a string is prefixed, comments about types, and whether a
#: name is read or set, which follows from where it stands.
MEANINGLESS = {"kind", "type_comment", "type_ignores", "ctx"}


def canonical(source: str) -> str:
    """The syntax tree of a source, without layout, comments and docstrings. Raises SyntaxError."""
    return canonical_node(ast.parse(source))


def canonical_node(node: ast.AST) -> str:
    """A node of a syntax tree and all below it, likewise."""
    pieces: list[str] = []
    write(node, pieces)
    return "".join(pieces)


def write(value: object, pieces: list[str]) -> None:
    """Append the text of a node, a list of nodes or a constant."""
    if isinstance(value, ast.AST):
        pieces.append(f"{type(value).__name__}(")
        for name in sorted(value._fields):
            field = getattr(value, name, None)
            if isinstance(field, list):
                field = [item for item in field if not is_bare_text(item)]
            if isinstance(value, ast.JoinedStr):
                field = joined(value.values)
            if name not in MEANINGLESS and not is_left_out(name, field):
                pieces.append(f"{name}=")
                write(field, pieces)
        pieces.append(")")
    elif isinstance(value, list):
        for item in value:
            write(item, pieces)
            pieces.append(",")
    else:
        pieces.append(f"{type(value).__name__}:{value!a} ")


def is_left_out(name: str, field: object) -> bool:
    """Whether a field is absent: later versions have added such, and a format may be without a word."""
    if name == "format_spec" and isinstance(field, ast.JoinedStr):
        return not joined(field.values)
    # The constant None has it as its value.
    return field == [] or (field is None and name != "value")


def is_bare_text(node: object) -> bool:
    """Whether a statement is a docstring, or another text that stands for itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def joined(values: list[ast.expr]) -> list[ast.expr]:
    """The pieces of an f-string, with neighbouring constants as one and none empty: versions cut differently."""
    pieces: list[ast.expr] = []
    for piece in values:
        last = pieces[-1] if pieces else None
        if isinstance(piece, ast.Constant) and isinstance(last, ast.Constant):
            pieces[-1] = ast.Constant(str(last.value) + str(piece.value))
        elif not (isinstance(piece, ast.Constant) and piece.value == ""):
            pieces.append(piece)
    return pieces
