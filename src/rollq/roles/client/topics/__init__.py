"""Publish and subscribe. To be read in this order:

1. `subscriptions`: what the application holds; `positions`: how far it has read a topic.
2. `subjects`: all publishes and subscriptions of a client, on the session of its engine.
3. `job_events`: the events of one job, which are published.

The public calls, also those that create topics, are in the package of calls.
"""
