"""The command line: a thin face over `dcron.crontab`. What commands need is imported when they run."""
