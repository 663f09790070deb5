"""Instead of the project's own gunicorn.conf.py, which gunicorn would read by itself."""

threads = 8
