"""dcron: one crontab that many servers share through a database."""

try:
    from dcron._version import __version__ as __version__
except ImportError:  # the source alone, which was never built or installed
    __version__ = "0+unknown"
