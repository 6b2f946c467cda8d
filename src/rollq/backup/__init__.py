"""Backup of a group to one file, and restore as a new group (`store.backup_file` has the format).

Reading order:

1. `contents`: verification and summary of a file; `pieces`: the history in it.
2. `live`: backup of a running group; `stopped`: of the state directory of a stopped member.
3. `restore`: creates the state directory of the first member of a new group.
"""
