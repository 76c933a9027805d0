"""Labels of traces: texts with names, such as `build=1a2b`, by which many traces are told apart.

This module is as light as it can be, since programs that are recorded load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fxtio.errors import require_type, shown

OBJECT_NAME = "labels"
"""The name of the kernel object of FXT whose arguments are labels: a job, which is a group of processes."""

OBJECT_KOID = 2**64 - 1
"""The koid of that object, which no other object has."""

VARIABLE = "FXTIO_LABELS"
"""The variable of the environment that adds labels to recordings, as `build=1a2b,host=web1`."""

MAX_LABELS = 64
"""The most labels of a recording."""

MAX_NAME, MAX_VALUE = 100, 1_000
"""The most characters of the name and of the text of a label of a recording."""

_CI: dict[str, tuple[str, ...]] = {
    "commit": (
        "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "BUILD_SOURCEVERSION", "GIT_COMMIT",
        "TRAVIS_COMMIT", "DRONE_COMMIT_SHA", "BITBUCKET_COMMIT",
    ),
    "branch": (
        "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH", "CIRCLE_BRANCH",
        "BUILD_SOURCEBRANCHNAME", "GIT_BRANCH", "TRAVIS_BRANCH", "DRONE_BRANCH", "BITBUCKET_BRANCH",
    ),
    "build": (
        "GITHUB_RUN_ID", "CI_PIPELINE_ID", "BUILDKITE_BUILD_NUMBER", "CIRCLE_BUILD_NUM", "BUILD_BUILDID", "BUILD_ID",
        "TRAVIS_BUILD_NUMBER", "DRONE_BUILD_NUMBER", "BITBUCKET_BUILD_NUMBER",
    ),
    "job": (
        "GITHUB_JOB", "CI_JOB_NAME", "BUILDKITE_LABEL", "CIRCLE_JOB", "AGENT_JOBNAME", "JOB_NAME", "TRAVIS_JOB_NAME",
        "DRONE_STAGE_NAME", "BITBUCKET_STEP_UUID",
    ),
    "repository": (
        "GITHUB_REPOSITORY", "CI_PROJECT_PATH", "BUILDKITE_REPO", "CIRCLE_PROJECT_REPONAME", "BUILD_REPOSITORY_NAME",
        "GIT_URL", "TRAVIS_REPO_SLUG", "DRONE_REPO", "BITBUCKET_REPO_FULL_NAME",
    ),
}  # fmt: skip
"""For each label of a CI run, the variables that GitHub, GitLab, Buildkite, CircleCI, Azure, Jenkins and others set."""


def checked(labels: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Return labels that may be recorded.

    Args:
        labels: the texts by name, or texts of the form `NAME=VALUE`.

    Raises:
        TypeError: a label is not a text.
        ValueError: one has no name or no `=`, is too long, or there are too many.
    """
    texts = [labels] if isinstance(labels, str) else [*labels]
    for text in [*texts, *(labels.values() if isinstance(labels, Mapping) else ())]:
        require_type(text, (str,), "each of labels is a text")
    labels = labels if isinstance(labels, Mapping) else dict(map(_parsed, texts))
    for name, value in labels.items():
        if not name or "=" in name:
            raise ValueError(f"{shown(name)} cannot be the name of a label: it is empty, or has a =")
        if len(name) > MAX_NAME or len(value) > MAX_VALUE:
            limits = f"{MAX_NAME} characters of a name, {MAX_VALUE:,} of a text"
            raise ValueError(f"the label {shown(name)} is too long: there are at most {limits}")
    if len(labels) > MAX_LABELS:
        raise ValueError(f"{len(labels)} labels are too many: a recording has at most {MAX_LABELS}")
    return dict(labels)


def _parsed(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"the label {shown(text)} is not of the form NAME=VALUE")
    return name, value


def of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the variable `FXTIO_LABELS` asks for.

    Raises:
        ValueError: they make no sense.
    """
    texts = [text.strip() for text in environment.get(VARIABLE, "").split(",")]
    try:
        return checked(filter(None, texts))
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from None


def of_ci(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the CI run that variables describe: commit, branch, build, job and repository."""
    found = {
        label: next((value for name in names if (value := environment.get(name))), "") for label, names in _CI.items()
    }
    return {label: _without_password(value)[:MAX_VALUE] for label, value in found.items() if value}


def _without_password(value: str) -> str:
    """Return a text without the user and the password of a URL, which some services keep in that of a repository."""
    scheme, mark, rest = value.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else value
