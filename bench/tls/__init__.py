"""What TLS and access cost: `python -m bench.tls`. `secured` is rollq with both, `storm` many that
dial at once."""
