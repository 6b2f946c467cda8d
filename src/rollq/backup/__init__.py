"""A group in one file, and a new group from it (`store.backup_file` has the format).

Reading order:

1. `contents`: what a file holds, checked; `pieces`: history in it.
2. `live`: taken from members that run; `stopped`: from the state directory of one that does not.
3. `restore`: the state directory of the first member of a new group.
"""
