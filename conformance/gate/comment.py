"""Writes a report as a comment of a pull request, instead of the comment that an earlier run wrote.

    python comment.py NUMBER NAME report.md

Needs Python 3.11, nothing else, and the variables that GitHub sets in a job, with GITHUB_TOKEN.  Where the comment may
not be written, as in a pull request of a fork, there is a warning, and no error: the summary of the job has the report.
"""

from __future__ import annotations

import json
import os
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

AUTHOR = "github-actions[bot]"
"""Who writes with the token of a job: a comment of others that has the marker is left alone."""

LONGEST = 65_536
"""The most characters of a comment."""

CUT = "\n\nThe summary of the job has the rest.\n"

FORBIDDEN = 403
PAGE = 100
MOST_PAGES = 100
TIMEOUT = 30  # seconds


def request(path: str, method: str = "GET", content: dict[str, str] | None = None) -> Any:
    """Send a request to GitHub and return the answer.

    Raises:
        OSError, HTTPException, ValueError: GitHub refuses it, cannot be reached, or something else answers.
    """
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/issues/{path}"
    body = None if content is None else json.dumps(content).encode()
    with urlopen(Request(url, body, headers, method=method), timeout=TIMEOUT) as answer:
        return json.load(answer)


def earlier(number: str, marker: str) -> int | None:
    """Return the id of the comment that begins with the marker, None if there is none."""
    for page in range(1, MOST_PAGES + 1):
        comments = request(f"{number}/comments?per_page={PAGE}&page={page}")
        for comment in comments:
            author = comment["user"] or {}  # none if the account was deleted
            if author.get("login") == AUTHOR and comment["body"].startswith(marker):
                return int(comment["id"])
        if len(comments) < PAGE:
            break
    return None


def main(number: str, name: str, report: str) -> None:
    """Write the comment."""
    marker = f"<!-- fxtio gate: {json.dumps(name).replace('>', '')} -->"
    body = f"{marker}\n{Path(report).read_text('utf-8')}"
    if len(body) > LONGEST:  # between lines, since a part of one may mean something else
        body = body[: body.rindex("\n", 0, LONGEST - len(CUT))].rstrip() + CUT
    content = {"body": body}
    try:
        if (comment := earlier(number, marker)) is None:
            request(f"{number}/comments", "POST", content)
        else:
            request(f"comments/{comment}", "PATCH", content)
    except (OSError, HTTPException, ValueError) as error:
        reason = ""
        if isinstance(error, HTTPError) and error.code == FORBIDDEN:
            reason = ": the job needs the permission pull-requests: write, which a fork does not get"
        sys.stdout.write(f"::warning::no comment was written ({error}){reason}; the summary has the report\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
