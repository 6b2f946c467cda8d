"""The client: a pure machine that decides, and (later) the asyncio and blocking shells."""
