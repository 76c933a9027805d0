"""Answer requests with a fixed amount of work.  The argument is how many percent more `search` has to do."""

import json
import random
import re
import sys
from typing import Any

Rows = list[dict[str, Any]]

MORE = int(sys.argv[1]) if len(sys.argv) > 1 else 0
ROWS = [{"id": number, "name": f"user {number}", "tags": ["a", "b", str(number % 9)]} for number in range(80)]
TEXT = json.dumps(ROWS)
PATTERN = re.compile(r"user (\d+)7\b")


def parse() -> Rows:
    rows: Rows = json.loads(TEXT)
    return rows


def order(rows: Rows) -> Rows:
    return sorted(rows, key=str)


def checksum(rows: Rows) -> int:
    total = 0
    for row in rows:
        for letter in row["name"]:
            total = (total * 31 + ord(letter)) % 1_000_003
    return total


def search() -> int:
    found = 0
    for _ in range(40 + 40 * MORE // 100):
        found += len(PATTERN.findall(TEXT))
    return found


def shuffle(rows: Rows, seed: int) -> Rows:
    random.Random(seed).shuffle(rows)
    return rows


def answer(number: int) -> int:
    return checksum(order(shuffle(parse(), number))) + search()


for number in range(120):
    answer(number)
