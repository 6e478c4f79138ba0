"""HDF5 files in the D4RL layout.

limits.py, attributes.py   what a file declares is looked at before anything is read
hdf5.py                    its columns, checked
d4rl.py                    columns of every version as a Dataset, in memory
mapped.py                  the same with the columns on disk, where they do not fit
writing.py                 a Dataset as a file
"""
