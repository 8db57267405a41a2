"""Tables of a page."""

import re

TABLE = re.compile(r"<h2>(?P<heading>[^<]*)</h2>\s*<div[^>]*>\s*<table.*?</table>", re.DOTALL)


def uneven_tables(page: str) -> list[str]:
    """Headings of the tables in which a row has more or fewer cells than there are columns."""
    return [found["heading"] for found in TABLE.finditer(page) if is_uneven(found[0])]


def is_uneven(table: str) -> bool:
    """Return True where a row of the table is uneven."""
    columns = table.count("<th>")
    return any(row.count("<td>") not in (0, columns) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL))
