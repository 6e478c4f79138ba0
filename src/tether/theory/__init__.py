"""The paper's sections 3 and 4 on finite MDPs, where every statement can be checked to rounding. In float64: see `tether theory`.

Nothing here turns 64 bits on for itself: the caller does, with `jax.enable_x64`, since the rest of Tether is float32.
"""
