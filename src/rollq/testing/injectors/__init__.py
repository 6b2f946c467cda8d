"""What the nemesis can do, one function a fault; each says whether it struck.

`network`, `disks`, `processes`; `operations` are faults of workers and clients, and what operators
do.
"""
