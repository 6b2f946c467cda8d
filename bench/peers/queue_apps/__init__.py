"""The application modules that the workers of Celery and Dramatiq load."""
