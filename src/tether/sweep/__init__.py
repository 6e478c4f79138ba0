"""Many runs from one file: `tether sweep PLAN.toml`.

plan.py        the file, read and checked
variants.py    what its runs differ in: a grid, random draws, or settings under a name
tables.py      the tables of the file, entry by entry
expansion.py   the runs that it stands for, each a config and a folder
narrowing.py   a part of them, where only that is asked for
choosing.py    which settings win, and so what the final runs are
records.py     what is known of each run on disk: done, running, failed or blocked with its reason
head.py        the whole of it: what is there already, and everything else carried out
bundles.py     what one worker makes: a run, or several seeds as one program
pool.py        workers side by side: started, watched, ended
workers.py     on this machine they are processes, each with cores of its own
on_ray.py      the same workers on the machines of a Ray cluster
worker.py      the process of one run, or of several seeds; it ends when its head does
account.py     all of it in words
estimate.py    how long it all will take here, from measured speeds
"""
