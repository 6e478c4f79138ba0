"""`tether finetune`: a finished run goes on, in an environment or with a new log.

start.py      the run to go on from: its state, its data, its scale of rewards
online.py     acting and learning in turns, from the data and from the environment half and half
annealing.py  bonus weights that fall as the agent learns online
crew.py       the environments that are stepped together, and how they come back after a stop
appended.py   a new log behind the run's own
going_on.py   the two ways, from what was asked for to the finished run
"""
