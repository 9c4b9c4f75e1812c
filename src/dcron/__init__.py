"""dcron: one crontab that many servers share through a database."""

__version__ = "0.1.0"
