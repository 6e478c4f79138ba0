"""A gridworld drawn as text: the cliff, and a behaviour that goes the long way round.

Every cell but a wall is a state. A move goes where it points, and with probability `SLIP` in a random direction; what would end
in a wall or outside ends where it began. Goal and cliff are never left; the goal pays 1 a step, all else nothing.
"""

from __future__ import annotations

import numpy as np

from tether.theory.mdps import MDP

WALL, START, GOAL, CLIFF = "#", "S", "G", "X"
LAYOUT = (
    ".......",
    ".......",
    ".##.##.",
    ".......",
    "SXXXXXG",
)
# What the behaviour does in each cell: up the left side, along the top, down the right side.
BEHAVIOUR = (
    ">>>>>>v",
    ">>>>>>v",
    "^##^##v",
    "^^^^^^v",
    "^.....v",
)
MOVES = {"^": (-1, 0), ">": (0, 1), "v": (1, 0), "<": (0, -1)}  # (row, column), in the order of the actions
SLIP = 0.1
DISCOUNT = 0.95


def cells(layout: tuple[str, ...] = LAYOUT) -> list[tuple[int, int]]:
    """The cell (row, column) of each state: all but walls, row by row."""
    return [(row, column) for row, line in enumerate(layout) for column, sign in enumerate(line) if sign != WALL]


def find(sign: str, layout: tuple[str, ...] = LAYOUT) -> int:
    """The state of the first cell with this sign."""
    return next(state for state, (row, column) in enumerate(cells(layout)) if layout[row][column] == sign)


def gridworld(layout: tuple[str, ...] = LAYOUT, slip: float = SLIP, discount: float = DISCOUNT) -> MDP:
    """The MDP of a drawing, as NumPy arrays."""
    places = cells(layout)
    index = {place: state for state, place in enumerate(places)}
    transition = np.zeros((len(places), len(MOVES), len(places)))
    reward = np.zeros((len(places), len(MOVES)))
    for state, (row, column) in enumerate(places):
        if layout[row][column] in (GOAL, CLIFF):
            transition[state, :, state] = 1.0
            reward[state] = float(layout[row][column] == GOAL)
            continue
        reached = [index.get((row + down, column + right), state) for down, right in MOVES.values()]
        for action, target in enumerate(reached):
            transition[state, action, target] += 1.0 - slip
            for other in reached:
                transition[state, action, other] += slip / len(MOVES)
    return MDP(transition, reward, np.asarray(discount))


def behaviour(noise: float, layout: tuple[str, ...] = LAYOUT, arrows: tuple[str, ...] = BEHAVIOUR) -> np.ndarray:
    """`(S, A)`: the drawn move, and with probability `noise` a random one. Where none is drawn, all are alike."""
    signs = list(MOVES)
    policy = np.full((len(cells(layout)), len(signs)), 1.0 / len(signs))
    for state, (row, column) in enumerate(cells(layout)):
        if arrows[row][column] in signs:
            policy[state] *= noise
            policy[state, signs.index(arrows[row][column])] += 1.0 - noise
    return policy
