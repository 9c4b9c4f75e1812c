"""Every form in words: the schedule on the left, what people read on the right."""

import pytest

from dcron.schedule.explain import explain
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone

TABLE = """
* * * * *                     | every minute
*/5 * * * *                   | every 5 minutes
0,30 * * * *                  | every 30 minutes
*/7 * * * *                   | at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour
0 * * * *                     | every hour, on the hour
30 * * * *                    | at minute 30 of every hour
0 */2 * * *                   | every 2 hours, at minute 0
5,10 */2 * * *                | every 2 hours, at minutes 5 and 10
* */2 * * *                   | every minute of hours 0, 2, 4, … and 22
*/2 */2 * * *                 | every 2 minutes of hours 0, 2, 4, … and 22
*/30 */6 * * *                | every 30 minutes of hours 0, 6, 12 and 18
* 3 * * *                     | every minute of hour 3
*/15 9-17 * * 1-5             | every 15 minutes of hours 9 to 17 on weekdays
10 0-7 * * *                  | at minute 10 of hours 0 to 7
30 2 * * *                    | at 02:30 every day
0 9,17 * * *                  | at 09:00 and 17:00 every day
0 9 * * mon-fri               | at 09:00 on weekdays
0 0 * * 6-7                   | at 00:00 at weekends
0 0 * * 0,3                   | at 00:00 on Wednesday and Sunday
0 0 * * 1-4                   | at 00:00 on Monday to Thursday
0 0 1 * *                     | at 00:00 on day 1 of the month
0 0 1,15 * 1                  | at 00:00 on days 1 and 15 of the month, or on Monday
0 12 1 1 1                    | in January: at 12:00 on day 1 of the month, or on Monday
0 0 1-31 * 1                  | at 00:00 every day
0 0 */16 * 1                  | at 00:00 on days 1 and 17 of the month, if it is Monday
0 0 */16 1 1                  | in January: at 00:00 on days 1 and 17 of the month, if it is Monday
0 0 L * *                     | at 00:00 on the last day of the month
0 0 15,L * *                  | at 00:00 on day 15 of the month and the last day of the month
0 0 LW * *                    | at 00:00 on the last weekday of the month
0 0 15W * *                   | at 00:00 on the weekday nearest to day 15 of the month
0 0 * * 1#2                   | at 00:00 on the second Monday of the month
0 0 * * L5                    | at 00:00 on the last Friday of the month
0 12 * 1-3,7 *                | at 12:00 every day in January to March and July
*/10 * * * * *                | every 10 seconds
* * * * * *                   | every second
0 */5 * * * *                 | every 5 minutes
5 */5 * * * *                 | every 5 minutes, at second 5
*/10 */5 * * * *              | every 10 seconds of minutes 0, 5, 10, … and 55 of every hour
* * 3 * * *                   | every second of hour 3
30 * * * * *                  | at second 30 of every minute
0,1 * * * * *                 | at seconds 0 and 1 of every minute
30 * 3 * * *                  | at second 30 of every minute of hour 3
5 */5 3 * * *                 | at second 5 of minutes 0, 5, 10, … and 55 of hour 3
0-30 54 */4 13 * *            | at seconds 0 to 30 of minute 54 of hours 0, 4, 8, 12, 16 and 20 \
on day 13 of the month
5,10 30 * * * *               | at seconds 5 and 10 of minute 30 of every hour
5 30 2 * * *                  | at 02:30:05 every day
*/20 30 2 * * *               | at 02:30, 02:30:20 and 02:30:40 every day
H H * * *                     | at 01:54 every day
@daily                        | at 00:00 every day
@hourly                       | every hour, on the hour
@yearly                       | at 00:00 on day 1 of the month in January
0 9 * * 1 / 0 17 * * 5        | at 09:00 on Monday; and at 17:00 on Friday
@daily / @reboot              | at 00:00 every day; and when a node starts
@reboot                       | when a node starts
@every 90s                    | every 1 minute 30 seconds
@every 1h                     | every hour
@every 1h30m                  | every 1 hour 30 minutes
@delay 5m                     | 5 minutes after the run before has ended
@delay 0.5s                   | 0.5 seconds after the run before has ended
@at 2027-01-01T09:00          | once, on 2027-01-01 at 09:00
@at 2027-01-01T09:00:30+02:00 | once, on 2027-01-01 at 09:00:30 UTC+02:00
@at 2027-01-01T09:00Z         | once, on 2027-01-01 at 09:00 UTC
@on deploy                    | when the event deploy is sent
@after load                   | after load has succeeded
@after load,check             | after load and check have succeeded
RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0 | every month on the last Friday at 17:00
RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;BYHOUR=2  | every 2 weeks on Monday and Wednesday at 02:00
RRULE:FREQ=WEEKLY                                  | every week on Thursday at 00:00
RRULE:FREQ=YEARLY                                  | every year in January on day 1 of the month at 00:00
RRULE:FREQ=YEARLY;BYYEARDAY=100                    | every year on day 100 of the year at 00:00
RRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO             | every year in week 20 of the year on Monday at 00:00
RRULE:FREQ=DAILY;BYHOUR=10,9                       | every day at 09:00 and 10:00
RRULE:FREQ=DAILY;BYHOUR=9;BYSECOND=0,5,10,15,20,25,30 | every day at hour 9, minute 0, \
seconds 0, 5, 10, 15, 20, 25 and 30
RRULE:FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15        | every day at hours 9 to 15, minute 0
RRULE:FREQ=MONTHLY;BYMONTHDAY=1,-2                 | every month on day 1 and \
the second to last day of the month at 00:00
RRULE:FREQ=DAILY;UNTIL=20300101                    | every day at 00:00, until 2030-01-01 23:59:59
RRULE:FREQ=MONTHLY;BYDAY=MO,FR;BYSETPOS=-1         | every month on Monday and Friday at 00:00 \
(only the last of these in each month)
DTSTART:20270101T090000 RRULE:FREQ=DAILY;COUNT=3   | every day at 09:00, from 2027-01-01 09:00, 3 times
DTSTART:20270101T090005 RRULE:FREQ=DAILY;COUNT=3   | every day at 09:00:05, from 2027-01-01 09:00:05, 3 times
RRULE:FREQ=DAILY;UNTIL=20300101T000030Z            | every day at 00:00, until 2030-01-01 00:00:30 UTC
RRULE:FREQ=DAILY;UNTIL=20300101T000000Z            | every day at 00:00, until 2030-01-01 00:00 UTC
"""
ROWS = [tuple(part.strip() for part in line.split("|")) for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("text", "words"), ROWS)
def test_a_schedule_in_words(text: str, words: str) -> None:
    assert explain(parse(text.replace(" / ", " | "), name="backup")) == words


def test_the_zone_is_named_where_it_matters() -> None:
    berlin = zone("Europe/Berlin")
    assert explain(parse("0 9 * * *"), berlin) == "at 09:00 every day (Europe/Berlin)"
    assert explain(parse("@at 2027-01-01T09:00"), berlin).endswith("(Europe/Berlin)")
    assert explain(parse("@every 5m"), berlin) == "every 5 minutes"
    assert explain(parse("@at 2027-01-01T09:00Z"), berlin).endswith("UTC")
    assert explain(parse("@reboot"), berlin) == "when a node starts"
