"""The connectors, each against the real package in an environment of its own: `make connectors`."""
