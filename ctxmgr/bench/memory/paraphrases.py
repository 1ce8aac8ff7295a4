"""Names of slots as people and agents put them, for the measurement of contradictions. Pure data.

    READ     what the rules missed here was read, and the rules were improved by it
    UNREAD   what they miss here was never looked at: that is the figure to trust

Both were written before the rules were last improved, and not changed since.
"""

from typing import Final, NamedTuple


class Slot(NamedTuple):
    """One thing that may be remembered of a project."""

    names: tuple[str, ...]
    """Ways to call it."""
    values: tuple[str, ...]
    """None says the same as another."""
    more: tuple[str, ...]
    """What may be added to a value without changing it."""
    others: tuple[str, ...] = ()
    """Names of other things that are easily taken for it."""


READ: Final = (
    Slot(
        ("test framework", "testing framework", "framework for testing", "test_framework"),
        ("jest", "vitest", "mocha"),
        ("with jsdom",),
        ("web framework", "end-to-end test framework"),
    ),
    Slot(
        ("API base URL", "base URL of the API", "base address of the API", "apiBaseUrl"),
        ("https://api.shop.io", "https://shop.io/api", "https://gateway.shop.io"),
        ("behind the proxy",),
        ("docs base URL", "API key"),
    ),
    Slot(
        ("cache TTL", "TTL of the cache", "cache time to live", "how long cache entries live"),
        ("60 s", "5 minutes", "1 hour"),
        ("for previews",),
        ("session TTL", "cache size"),
    ),
    Slot(
        ("CI provider", "CI system", "CI service", "our CI", "continuous integration provider"),
        ("GitHub Actions", "GitLab CI", "Jenkins", "CircleCI"),
        ("on self-hosted runners",),
        ("cloud provider", "email provider"),
    ),
    Slot(
        ("node version", "Node.js version", "version of node", "nodejs version"),
        ("18", "20", "22"),
        ("LTS",),
        ("npm version", "React version"),
    ),
    Slot(
        ("code formatter", "formatter", "tool for formatting code", "auto-formatter"),
        ("black", "yapf", "autopep8"),
        ("on save",),
        ("log format", "date format"),
    ),
    Slot(
        ("page size", "default page size", "items per page", "size of a page"),
        ("20", "50", "100"),
        ("in lists",),
        ("maximum upload size", "pool size"),
    ),
    Slot(
        ("ORM", "ORM library", "orm in use", "object-relational mapper"),
        ("SQLAlchemy", "Peewee", "Tortoise"),
        ("with Alembic",),
        ("HTTP library", "logging library"),
    ),
    Slot(
        ("log format", "format of the logs", "logging format", "log line format"),
        ("JSON", "plain text", "logfmt"),
        ("on stdout",),
        ("log level", "date format"),
    ),
    Slot(
        ("merge strategy", "pull request merge strategy", "how we merge PRs", "PR merge method"),
        ("squash", "rebase", "merge commit"),
        ("always",),
        ("branching strategy", "caching strategy"),
    ),
    Slot(
        ("secret storage", "secrets store", "where secrets are stored", "storage of secrets"),
        ("Vault", "AWS Parameter Store", "env files"),
        ("per environment",),
        ("session storage", "file storage"),
    ),
    Slot(
        ("frontend framework", "front-end framework", "framework of the frontend", "UI framework"),
        ("React", "Vue", "Svelte"),
        ("with TypeScript",),
        ("backend framework", "test framework"),
    ),
    Slot(
        ("deployment target", "deploy target", "where we deploy", "target of deployments"),
        ("Kubernetes", "Fly.io", "Heroku"),
        ("in Frankfurt",),
        ("deployment day", "deployment owner"),
    ),
    Slot(
        ("password hashing", "password hash", "hashing of passwords", "password hashing algorithm"),
        ("bcrypt", "argon2id", "scrypt"),
        ("with a pepper",),
        ("password length", "password rotation"),
    ),
    Slot(
        ("coverage threshold", "minimum coverage", "min test coverage", "required coverage"),
        ("80 %", "90 %", "85 percent"),
        ("per package",),
        ("coverage tool", "alert threshold"),
    ),
    Slot(
        ("date format", "format of dates", "format for dates", "dateFormat"),
        ("ISO 8601", "DD.MM.YYYY", "unix seconds"),
        ("in the API",),
        ("log format", "due date"),
    ),
    Slot(
        ("team lead", "lead of the team", "who leads the team", "team leader"),
        ("Maria", "Tom", "Chen"),
        ("until summer",),
        ("team size", "design lead"),
    ),
    Slot(
        ("upload limit", "maximum upload size", "max upload size", "upload size limit"),
        ("10 MB", "25 MB", "100 MB"),
        ("per file",),
        ("download limit", "minimum upload size"),
    ),
    Slot(
        ("standup time", "time of the standup", "when the standup is", "daily standup time"),
        ("9:30", "10:00", "9:15"),
        ("in the small room",),
        ("standup room", "retro time"),
    ),
    Slot(
        ("feature flags", "feature flag service", "service for feature flags", "feature toggles"),
        ("LaunchDarkly", "Unleash", "Flagsmith"),
        ("in all apps",),
        ("feature freeze", "email service"),
    ),
)

UNREAD: Final = (
    Slot(
        ("build tool", "build system", "tool for builds", "what we build with"),
        ("make", "bazel", "gradle"),
        ("with remote caching",),
        ("build number", "migration tool"),
    ),
    Slot(
        ("connection pool size", "pool size", "size of the connection pool", "db pool size"),
        ("5", "10", "twenty"),
        ("per worker",),
        ("thread pool size", "connection timeout"),
    ),
    Slot(
        ("error tracking", "error tracker", "service for error tracking", "where errors are sent"),
        ("Sentry", "Rollbar", "Bugsnag"),
        ("in production",),
        ("error budget", "time tracking"),
    ),
    Slot(
        ("access token lifetime", "lifetime of access tokens", "access token expiry", "token TTL"),
        ("15 minutes", "1 hour", "one day"),
        ("sliding",),
        ("refresh token lifetime", "access token format"),
    ),
    Slot(
        ("license", "project license", "licence", "license of the project"),
        ("MIT", "Apache-2.0", "GPL-3.0"),
        ("with an exception",),
        ("license key", "driver license check"),
    ),
    Slot(
        ("Docker base image", "base image", "image we build from", "base image for Docker"),
        ("python:3.12-slim", "alpine", "debian:bookworm"),
        ("pinned by digest",),
        ("image size limit", "image registry"),
    ),
    Slot(
        ("migration tool", "database migration tool", "tool for migrations", "db migrations"),
        ("Alembic", "Flyway", "Liquibase"),
        ("in CI",),
        ("build tool", "migration owner"),
    ),
    Slot(
        ("quote style", "quotes", "string quotes", "quotes for strings"),
        ("single", "double"),
        ("in Python",),
        ("quote of the day", "comment style"),
    ),
    Slot(
        ("branch naming", "branch names", "naming of branches", "branch name convention"),
        ("feature/TICKET-name", "user/topic", "TICKET only"),
        ("in lower case",),
        ("class naming", "branch protection"),
    ),
    Slot(
        ("monitoring", "monitoring stack", "monitoring tool", "how we monitor"),
        ("Prometheus", "Datadog", "New Relic"),
        ("with Grafana",),
        ("monitor size", "monitoring budget"),
    ),
    Slot(
        ("worker count", "number of workers", "workers", "how many workers run"),
        ("2", "four", "8"),
        ("per host",),
        ("retry count", "number of replicas"),
    ),
    Slot(
        ("search engine", "search backend", "engine for search", "full-text search engine"),
        ("Elasticsearch", "Meilisearch", "Typesense"),
        ("self-hosted",),
        ("template engine", "search page size"),
    ),
    Slot(
        ("backup schedule", "schedule of backups", "when backups run", "backup frequency"),
        ("nightly", "hourly", "every Sunday"),
        ("to S3",),
        ("backup location", "release schedule"),
    ),
    Slot(
        ("code reviewer", "reviewer", "who reviews code", "code review by"),
        ("Priya", "Jonas", "Amina"),
        ("and a second one",),
        ("code owner", "design reviewer"),
    ),
    Slot(
        ("state management", "state management library", "state mgmt", "managing state"),
        ("Redux", "Zustand", "MobX"),
        ("in the shop app",),
        ("package management", "state machine"),
    ),
    Slot(
        ("rate limit", "API rate limit", "rate limiting", "request rate limit"),
        ("100 per minute", "60 per minute", "1000 per hour"),
        ("per key",),
        ("rate of tax", "spending limit"),
    ),
    Slot(
        ("payment provider", "provider for payments", "payments provider", "payment processor"),
        ("Stripe", "Adyen", "Mollie"),
        ("in Europe",),
        ("email provider", "payment deadline"),
    ),
    Slot(
        ("sprint length", "length of a sprint", "sprint duration", "how long a sprint is"),
        ("two weeks", "3 weeks", "one week"),
        ("starting on Monday",),
        ("sprint goal", "call length"),
    ),
    Slot(
        ("time zone", "timezone", "server time zone", "timezone of timestamps"),
        ("UTC", "Europe/Berlin", "America/New_York"),
        ("everywhere",),
        ("time limit", "delivery zone"),
    ),
    Slot(
        ("support email", "support address", "email of support", "e-mail for support"),
        ("help@shop.io", "support@shop.io", "care@shop.io"),
        ("around the clock",),
        ("sales email", "support phone number"),
    ),
)
