"""What the five fields of cron mean, written from the words of the documentation alone.

Minute, hour, day of the month, month, day of the week. `*`, numbers, ranges, lists, steps `*/n` and `a-b/n`; names of
months and days; 0 and 7 are Sunday, and SUN at the end of a range is 7. `L`, `LW` and `15W` are days of a month,
`FRI#2` and `FRIL` are weekdays in a month. If both day fields are restricted, which is to say not exactly `*`, one of
them has to match.
"""

import calendar
import datetime

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def number(word, names, first):
    """A number, or a name for one. `first` is the number of the first name."""
    return names.index(word) + first if word in names else int(word)


def numbers(field, low, high, names=(), first=0):
    """All numbers of a field with numbers, ranges, lists and steps."""
    found = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        start, dash, end = span.partition("-")
        if span == "*":
            start, end = low, high
        else:
            start = number(start, names, first)
            if not dash:
                end = start
            elif end == "SUN":
                end = 7
            else:
                end = number(end, names, first)
        if not low <= start <= end <= high:
            raise ValueError(f"{field!r} is not within {low} to {high}")
        found.update(range(start, end + 1, int(step or 1)))
    return frozenset(found)


def last_of_month(date):
    """The number of the last day of the month."""
    return calendar.monthrange(date.year, date.month)[1]


def nearest_workday(date, day):
    """The number of the day from Monday to Friday that is nearest to this day of the month, in the same month."""
    last = last_of_month(date)
    if day > last:
        return None
    workdays = [it for it in range(1, last + 1) if date.replace(day=it).weekday() < 5]
    return min(workdays, key=lambda it: abs(it - day))


def day_of_month(item):
    """A function that tells of a date whether it is meant."""
    if item == "L":
        return lambda date: date.day == last_of_month(date)
    if item == "LW":
        return lambda date: date.day == nearest_workday(date, last_of_month(date))
    if item.endswith("W"):
        day = int(item[:-1])
        return lambda date: date.day == nearest_workday(date, day)
    days = numbers(item, 1, 31)
    return lambda date: date.day in days


def day_of_week(item):
    """A function that tells of a date whether it is meant."""
    if "#" in item:
        name, _, nth = item.partition("#")
        wanted, nth = number(name, WEEKDAYS, 0) % 7, int(nth)
        return lambda date: date.isoweekday() % 7 == wanted and (date.day - 1) // 7 + 1 == nth
    if item.endswith("L"):
        wanted = number(item[:-1], WEEKDAYS, 0) % 7
        return lambda date: date.isoweekday() % 7 == wanted and date.day + 7 > last_of_month(date)
    days = {it % 7 for it in numbers(item, 0, 7, WEEKDAYS, 0)}
    return lambda date: date.isoweekday() % 7 in days


class Cron:
    """An expression of five fields."""

    def __init__(self, text):
        minute, hour, day, month, weekday = text.upper().split()
        self.minutes = numbers(minute, 0, 59)
        self.hours = numbers(hour, 0, 23)
        self.months = numbers(month, 1, 12, MONTHS, 1)
        self.days = None if day == "*" else [day_of_month(item) for item in day.split(",")]
        self.weekdays = None if weekday == "*" else [day_of_week(item) for item in weekday.split(",")]
        self.known = {}

    def has_date(self, ordinal):
        """Whether it matches on this date, given as the number of the day since the year 1."""
        known = self.known.get(ordinal)
        if known is None:
            known = self.known[ordinal] = self.matches(datetime.date.fromordinal(ordinal))
        return known

    def matches(self, date):
        """Whether it matches on this date."""
        if date.month not in self.months:
            return False
        restricted = [field for field in (self.days, self.weekdays) if field is not None]
        return not restricted or any(is_meant(date) for field in restricted for is_meant in field)
