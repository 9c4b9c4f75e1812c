"""Schedules: from a schedule's text and a time zone to the times at which it runs.

The functions are pure. This package alone imports croniter, dateutil and zoneinfo. A *local time* is a
naive datetime: what a wall clock in the zone shows. An *instant* is an aware datetime in UTC.
"""
