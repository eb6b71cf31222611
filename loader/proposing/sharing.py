"""What an earlier call wrote into the folder is kept once: the same model, or a wider one."""

from __future__ import annotations

import re

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.proposing.catalog import Relation
from loader.proposing.files import model_text
from loader.setup.dbt_text import source_call
from waltally.errors import SettingError

_CONFIG = re.compile(r"\A(\{\{ config\(.*?\) \}\})\n\n(.*)\Z", re.S)


def share(book: Book, written: dict[str, str]) -> set[str]:
    """Give models the names of those that do as well; return the names whose files stay.

    `written`: by name, the text of the folder's models. A copy of the same rows gets the columns
    of both.
    """
    kept: set[str] = set()
    for model in book.models:
        for name, text in written.items():
            if model.copied:
                _widen(book, model, text)
            if model_text(book, model) == text:
                kept.add(name)
            elif not (model.copied and _columns(book, model, text)):
                continue
            else:
                book.notes.append(
                    f"{name} is written anew, with more columns: the next `dbt build` fills it"
                )
            for other in book.models:
                other.kind = re.sub(rf"\b{model.name}\b", name, other.kind)
            model.name = name
            break
    return kept


def _widen(book: Book, model: Model, text: str) -> None:
    table = book.marked(model.copied)
    if isinstance(table, Relation) and (columns := _columns(book, model, text)):
        both = {*columns, *model.columns}
        model.columns = tuple(name for name in table.columns if name in both)


def _columns(book: Book, model: Model, text: str) -> list[str]:
    """Return the columns of a file that copies the same rows as a model; empty of another one."""
    table = book.marked(model.copied)
    parts, own = _CONFIG.match(text), _CONFIG.match(model_text(book, model))
    if not isinstance(table, Relation) or not parts or not own or parts[1] != own[1]:
        return []
    body = parts[2].replace(f"{{{{ {source_call(table.table)} }}}}", model.copied)
    try:
        (select,) = tree.parse(body)
    except SettingError:
        return []
    mine = tree.parse(model.text)[0]
    columns = [tree.names(one.res_target.val.column_ref) for one in select.target_list]
    for query in (select, mine):
        del query.target_list[:]
    is_same = tree.statement(select) == tree.statement(mine)
    return [names[0] for names in columns if names] if is_same else []
