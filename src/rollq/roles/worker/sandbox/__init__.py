"""The sandbox: layers between a job and the rest of its computer (ADR 0026).

1. `layers`: their names, what a worker is told, which of them it puts on; pure;
2. `sandbox`: finds out what the system allows, and starts programs in their layers;
3. `launcher_main`: the process that does it; `launcher`: the worker's end of it;
4. `box`: one program in its layers, and what its end was due to; `cgroups`: groups of the kernel;
   `watch`: memory and processes counted by looking; `paths`: which files a job may see.
"""
