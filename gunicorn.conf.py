"""gunicorn reads this by itself: `gunicorn "app:create_app()"`."""

import os

from bridge import environment
from bridge.watch import alerts
from bridge.watch.logs import gunicorn_logging

_settings = environment.read()  # ends gunicorn before it has started anything

bind = f"0.0.0.0:{_settings.port}"
workers = _settings.web_concurrency
threads = 8
timeout = 30
graceful_timeout = 20  # Heroku kills what is left 30 s after SIGTERM
keepalive = 5
limit_request_line = 8190  # providers that use GET put a whole call into the query
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108 - heartbeats must not wait for a disk
control_socket_disable = True  # it would stand in the home folder, one for every gunicorn of this user
logconfig_dict = gunicorn_logging(_settings.log_format, _settings.log_level)


def on_starting(_server):  # noqa: ANN001, ANN201 - gunicorn's signature
    """A worker that hangs, or is killed for its memory, can say nothing: this process does, by an error in its log."""
    alerts.configure_by(_settings, release=os.environ.get("HEROKU_RELEASE_VERSION"))


def pre_fork(_server, _worker):  # noqa: ANN001, ANN201 - gunicorn's signature
    """What was told of the last worker has left before the next is forked: a lock held meanwhile would be held in it for ever."""
    alerts.flush()


def post_worker_init(worker):  # noqa: ANN001, ANN201 - gunicorn's signature
    """Drain what an earlier process left in the spool, even if no webhook comes. Each worker for itself: threads do not survive a fork."""
    worker.wsgi.extensions["callbridge"].drainer.start()
