"""A policy over HTTP: `tether serve`. It runs on `tether.runtime`, so it needs no JAX and starts at once.

holder.py    the policy that is served, swapped when its file changes
asking.py    what may be asked, and the answer
counters.py  what Prometheus sees
app.py       the paths, with FastAPI
server.py    the socket, the process, its end
"""
