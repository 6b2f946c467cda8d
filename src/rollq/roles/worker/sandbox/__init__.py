"""The sandbox: layers between a job and its host (ADR 0026).

1. `layers`: their names, the worker's options, and the choice of layers; pure;
2. `sandbox`: probes what the system permits, and starts programs in their layers;
3. `launcher_main`: the process that does that; `launcher`: the worker's end of it;
4. `box`: one program in its layers, and the causes of its end; `cgroups`: control groups; `watch`:
   memory and processes measured by polling; `paths`: the files that a job may access.
"""
