"""Secrets that are recognised by their form, and the form of each kind. Pure.

    prefixed    a provider's prefix and a number of characters of an alphabet
    structured  private key blocks, JSON web tokens, credentials in a URL, password hashes

Every expression begins with a literal or at a boundary, has possessive or bounded quantifiers, and
is tried only on a text that contains one of its hints. So the time is linear in the length of any
text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

PRIVATE_KEY: Final = "private-key"


@dataclass(frozen=True, slots=True, order=True)
class SecretSpan:
    """The position of a secret in a text."""

    start: int
    rank: int
    """Of two spans with the same start, the lower rank has the more specific kind."""
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class SecretForm:
    """A kind of secret and its expression; the secret is group 1, or the whole match."""

    kind: str
    hints: tuple[str, ...]
    expression: str
    rank: int = 0

    def spans(self, text: str) -> Iterator[SecretSpan]:
        if not any(hint in text for hint in self.hints):
            return
        expression = _compiled(self.expression)
        group = 1 if expression.groups else 0
        for match in expression.finditer(text):
            yield SecretSpan(match.start(group), self.rank, match.end(group), self.kind)


def formed_spans(text: str) -> Iterator[SecretSpan]:
    """Yield every secret with a known form, kind by kind; spans may overlap."""
    for form in FORMS:
        yield from form.spans(text)
    yield from _private_keys(text)


_ALNUM: Final = "A-Za-z0-9"
_URL64: Final = "-A-Za-z0-9_"
_HEX: Final = "0-9a-f"


def _prefixed(kind: str, prefixes: str, alphabet: str, least: int, most: int = 512) -> SecretForm:
    """``prefixes`` are separated by spaces; ``least`` to ``most`` characters follow."""
    literals = tuple(prefixes.split())
    marks = "|".join(map(re.escape, literals))
    body = f"[{alphabet}]{{{least},{most}}}+" if least < most else f"[{alphabet}]{{{least}}}"
    return SecretForm(kind, literals, f"(?<![{_ALNUM}_])(?:{marks}){body}(?![{_ALNUM}])")


def _shaped(kind: str, hints: str, expression: str, *, rank: int = 0) -> SecretForm:
    return SecretForm(kind, tuple(hints.split()), expression, rank)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compile an expression on first use: few texts have hints, and compiling all is slow."""
    return re.compile(expression, re.ASCII)


FORMS: Final = (
    _prefixed("aws-key-id", "AKIA ASIA ABIA ACCA", "A-Z2-7", 16, 16),
    _prefixed("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 36),
    _prefixed("github-token", "github_pat_", _ALNUM + "_", 22),
    _prefixed("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glsoat-", _URL64 + ".", 20),
    _prefixed("slack-token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", "-" + _ALNUM, 10),
    _prefixed("anthropic-key", "sk-ant-", _URL64, 20),
    _prefixed("openrouter-key", "sk-or-v1-", _HEX, 40),
    _prefixed("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _URL64, 20),
    _prefixed("openai-key", "sk-", _ALNUM, 32),
    _prefixed("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", _ALNUM + "+/=", 16),
    _prefixed("google-key", "AIza", _URL64, 35, 35),
    _prefixed("google-token", "ya29. GOCSPX-", _URL64, 20, 2_048),
    _prefixed("npm-token", "npm_", _ALNUM, 36, 36),
    _prefixed("pypi-token", "pypi-AgEI", _URL64, 40, 1_024),
    _prefixed("rubygems-key", "rubygems_", _HEX, 40),
    _prefixed("docker-token", "dckr_pat_ dckr_oat_", _URL64, 20),
    _prefixed("huggingface-token", "hf_ api_org_", _ALNUM, 30, 60),
    _prefixed("replicate-token", "r8_", _ALNUM, 30, 60),
    _prefixed("groq-key", "gsk_", _ALNUM, 40),
    _prefixed("xai-key", "xai-", _ALNUM, 40),
    _prefixed("perplexity-key", "pplx-", _ALNUM, 32),
    _prefixed("mailgun-key", "key-", _HEX, 32, 32),
    _prefixed("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 64, 64),
    _prefixed("databricks-token", "dapi", _HEX, 32, 32),
    _prefixed("shopify-token", "shpat_ shpca_ shppa_ shpss_", _HEX + "A-F", 32, 32),
    _prefixed("vault-token", "hvs. hvb. hvr.", _URL64, 24),
    _prefixed("linear-key", "lin_api_ lin_oauth_", _ALNUM, 32),
    _prefixed("notion-token", "ntn_", _ALNUM, 40),
    _prefixed("figma-token", "figd_ figo_", _URL64, 30),
    _prefixed("grafana-token", "glsa_ glc_", _ALNUM + "_+/=", 32),
    _prefixed("sentry-token", "sntrys_ sntryu_", _ALNUM + "_+/=", 40),
    _prefixed("supabase-token", "sbp_ sb_secret_", _URL64, 30),
    _prefixed("square-token", "sq0atp- sq0csp- EAAA", _URL64, 22, 64),
    _prefixed("postman-key", "PMAK-", "-" + _HEX, 59, 59),
    _prefixed("pulumi-token", "pul-", _HEX, 40, 40),
    _prefixed("tailscale-key", "tskey-", "-" + _ALNUM, 20),
    _prefixed("newrelic-key", "NRAK-", "A-Z0-9", 27, 27),
    _prefixed("atlassian-token", "ATATT3 ATBB ATCTT3", _URL64 + "=", 24),
    _prefixed("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa.", _URL64 + ".", 40),
    _prefixed("age-key", "AGE-SECRET-KEY-1", "A-Z0-9", 58, 58),
    _prefixed("fly-token", "fm1r_ fm1a_ fm2_ fo1_", _URL64 + "+/=,", 40, 4_096),
    _prefixed("aws-bedrock-key", "ABSK", _ALNUM + "+/=", 100),
    _prefixed("alibaba-key-id", "LTAI", _ALNUM, 17, 21),
    _prefixed("brevo-key", "xkeysib- xsmtpsib-", "-" + _ALNUM, 64, 96),
    _prefixed("clojars-token", "CLOJARS_", _HEX, 60, 60),
    _prefixed("dropbox-token", "sl.", _URL64, 130, 200),
    _prefixed("dynatrace-token", "dt0c01. dt0s01. dt0s16.", "A-Z0-9.", 60, 100),
    _prefixed("easypost-key", "EZAK EZTK", _ALNUM, 54, 54),
    _prefixed("flutterwave-key", "FLWSECK- FLWSECK_TEST- FLWSECK_LIVE-", "-" + _ALNUM, 30, 60),
    _prefixed("heroku-key", "HRKU-", _URL64, 36, 60),
    _prefixed("jfrog-key", "AKCp", _ALNUM, 60, 80),
    _prefixed("langsmith-key", "lsv2_pt_ lsv2_sk_", _HEX + "_", 40, 60),
    _prefixed("nvidia-key", "nvapi-", _URL64, 60, 80),
    _prefixed("octopus-key", "API-", "A-Z0-9", 26, 26),
    _prefixed("onepassword-token", "ops_eyJ", _URL64, 200, 2_048),
    _prefixed("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", _URL64 + ".=", 32),
    _prefixed("prefect-key", "pnu_", _ALNUM, 36, 36),
    _prefixed("readme-key", "rdme_", _ALNUM, 70, 70),
    _prefixed("shippo-token", "shippo_live_ shippo_test_", _HEX, 40, 40),
    _prefixed("sourcegraph-token", "sgp_", _ALNUM + "_", 40, 70),
    _prefixed("typeform-token", "tfp_", _URL64 + ".=", 44, 70),
    _prefixed("yandex-key", "AQVN", _URL64, 35, 50),
    _shaped("twilio-key", "SK", r"\bSK[0-9a-f]{32}\b"),
    _shaped("sendgrid-key", "SG.", r"\bSG\.[\w-]{20,24}+\.[\w-]{39,50}+"),
    _shaped("mailchimp-key", "-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    _shaped("terraform-token", ".atlasv1.", rf"\b[{_ALNUM}]{{14}}\.atlasv1\.[\w=-]{{60,90}}+"),
    _shaped("telegram-token", ":AA", r"(?<![\w:])\d{8,10}:AA[\w-]{32,34}+(?![\w-])"),
    _shaped(
        "discord-token",
        "iscord ISCORD",
        r"(?<![\w.-])[MNO][\w-]{22,27}+\.[\w-]{6}\.[\w-]{27,40}+(?![\w.])",
    ),
    _shaped(
        "slack-webhook", "hooks.slack.com", rf"hooks\.slack\.com/\w{{6,12}}/([{_ALNUM}/]{{30,80}}+)"
    ),
    _shaped(
        "json-web-token", "eyJ", r"(?<![\w-])eyJ[\w-]{8,8192}+\.eyJ[\w-]{8,65536}+\.[\w-]{10,2048}+"
    ),
    _shaped("password-hash", "$", r"\$(?:2[abxy]|5|6|y|7|apr1|argon2id?)\$[\w./$,=+-]{20,200}+"),
    _shaped(
        "url-password",
        "://",
        r"""://[^\s/:@?#'"<>`|,;]{0,64}+:(?!(?:\[secret:|pass(?:w(?:or)?d)?@|pwd@|secret@|token@))"""
        r"""([^\s/:@'"<>`|{}$*]{4,128}+)@(?=[\w\[])""",
    ),
    _shaped(
        "authorization",
        "earer EARER asic ASIC uthorization UTHORIZATION",
        r"""(?i:\b(?:bearer|authorization["']?\s{0,2}[:=,]\s{0,2}["']?"""
        r"""(?:basic|token|apikey|bearer))["']?\s{1,8}["']?)"""
        r"((?![A-Za-z]{1,15}\b)[\w.~+/-]{12,8192}+=*+)",
        rank=1,
    ),
)

_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,50}-----")
_TORN: Final = re.compile(r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+){0,400}+")
"""The lines of a private key whose end is missing, because the output was truncated."""


def _private_keys(text: str) -> Iterator[SecretSpan]:
    if "PRIVATE KEY" not in text:
        return
    for begin in _BEGIN.finditer(text):
        # This finds the next block at the latest, so the search stays linear.
        dashes = text.find("-----", begin.end())
        end = _END.match(text, dashes) if dashes >= 0 else None
        torn = end or _TORN.match(text, begin.end())
        assert torn is not None
        if end or torn.end() > begin.end():
            yield SecretSpan(begin.start(), 0, torn.end(), PRIVATE_KEY)
