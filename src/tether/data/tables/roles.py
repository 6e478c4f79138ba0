"""Which column is what: patterns against the columns that every file has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tether.data.tables.files import TableFile, natural_order, unit_of
from tether.errors import TetherError, did_you_mean


@dataclass(frozen=True)
class Roles:
    """Names of columns: in the order of their patterns, and those of one pattern in natural order, obs_2 before obs_10."""

    observation: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    terminated: str | None  # None: no row is a true end
    truncated: str | None
    episode: str | None
    time: str | None

    @property
    def singles(self) -> dict[str, str]:
        """The one column of each role that has one, by role."""
        roles = ("reward", "terminated", "truncated", "episode", "time")
        return {role: getattr(self, role) for role in roles if getattr(self, role) is not None}

    @property
    def by_column(self) -> dict[str, str]:
        """The role of every column that is used."""
        return {
            **dict.fromkeys(self.observation, "observation"),
            **dict.fromkeys(self.action, "action"),
            **{column: role for role, column in self.singles.items()},
        }


def find_roles(
    files: Sequence[TableFile],
    observation: Sequence[str],
    action: Sequence[str],
    reward: str,
    terminated: str | None,
    truncated: str | None = None,
    episode: str | None = None,
    time: str | None = None,
) -> Roles:
    """The columns of each role, the same in every file; an error says which is missing, doubly used or only here and there.

    A pattern is a name with * and ?, or the name of a two-dimensional array; one that begins with ! takes columns out again.
    """
    first = files[0]
    singles = {"reward": reward, "terminated": terminated, "truncated": truncated, "episode": episode, "time": time}
    for role, column in singles.items():
        if column is not None and column not in first.schema.names:
            raise TetherError(f"{first.name}: no column {column!r} for --{role}{did_you_mean(column, first.schema.names)}")
    many = {"observation": tuple(observation), "action": tuple(action)}
    found = {role: _matching(first, role, patterns) for role, patterns in many.items()}
    _refuse_double_use(found, singles, many)
    roles = Roles(found["observation"], found["action"], **singles)  # type: ignore[arg-type]
    for file in files[1:]:
        _same_columns(first, file, roles, many)
    return roles


def compare_units(files: Sequence[TableFile], roles: Roles) -> list[str]:
    """Refuse a column that has one unit in one file and another in another; what some files leave out is said."""
    silent: list[list[str]] = [[] for _ in files]  # the columns of which a file does not name the unit, though another does
    for column, role in roles.by_column.items():
        units = [(unit_of(file.schema.field(column)) or "").strip() for file in files]
        named = [place for place, unit in enumerate(units) if unit]
        if role in ("episode", "terminated", "truncated") or not named:
            continue
        first = named[0]
        for place, unit in enumerate(units):
            if not unit:
                silent[place].append(f"{column} ({units[first]})")
            elif unit != units[first]:
                raise TetherError(
                    f"{files[place].name}: the unit of column {column!r} is {unit!r}, and in {files[first].name} it is "
                    f"{units[first]!r}; units are not converted, so write the column in one of them, by one name, in every file"
                )
    said: dict[str, list[str]] = {}
    for file, columns in zip(files, silent, strict=True):
        if columns:
            said.setdefault(", ".join(columns), []).append(file.name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: the unit is not named as in other files: {columns}"
        for columns, names in said.items()
    ]


def _matching(file: TableFile, role: str, patterns: Sequence[str]) -> tuple[str, ...]:
    chosen: list[str] = []
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        # Brackets are text, as in `speed [m/s]`; to fnmatch they would be a choice of letters.
        literally = wanted.replace("[", "[[]")
        names = {name for name in file.schema.names if fnmatchcase(name, literally) or file.bases.get(name) == wanted}
        if not names:
            near = did_you_mean(wanted, {*file.schema.names, *file.bases.values()})
            raise TetherError(f"{file.name}: no column matches --{role} {pattern!r}{near}")
        if pattern.startswith("!"):
            chosen = [name for name in chosen if name not in names]
        else:
            chosen += sorted(names.difference(chosen), key=natural_order)
    if not chosen:
        raise TetherError(f"{file.name}: --{role} {' '.join(patterns)} leaves no column")
    return tuple(chosen)


def _refuse_double_use(
    found: dict[str, tuple[str, ...]], singles: dict[str, str | None], patterns: dict[str, tuple[str, ...]]
) -> None:
    used: dict[str, str] = {}
    every = [*((column, role) for role, columns in found.items() for column in columns)]
    every += [(column, role) for role, column in singles.items() if column is not None]
    for column, role in every:
        if column in used:
            one = next((name for name in (used[column], role) if name in patterns), None)
            mend = f"; leave it out with --{one} {' '.join(map(repr, patterns[one]))} '!{column}'" if one else ""
            raise TetherError(f"column {column!r} is matched by --{used[column]} and by --{role}{mend}")
        used[column] = role


def _same_columns(first: TableFile, file: TableFile, roles: Roles, patterns: dict[str, tuple[str, ...]]) -> None:
    missing = [column for column in roles.by_column if column not in file.schema.names]
    if missing:
        near = did_you_mean(missing[0], file.schema.names)
        raise TetherError(f"{file.name}: no column {missing[0]!r}, which {first.name} has{near}")
    for role, given in patterns.items():
        extra = [column for column in _matching(file, role, given) if column not in getattr(roles, role)]
        if extra:
            raise TetherError(f"{file.name}: --{role} matches {extra[0]!r} too, which {first.name} does not have")
