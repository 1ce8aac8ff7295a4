"""Generated secrets and harmless look-alikes, from a seed. None is real or in this source.

Provider prefixes are written in two parts, so that secret scanners do not report this file.
"""

import base64
import hashlib
import json
import string
import uuid
from collections.abc import Iterator
from random import Random

ALNUM = string.ascii_letters + string.digits
URL64 = ALNUM + "-_"
HEX = "0123456789abcdef"

PREFIXED = (
    ("aws-key-id", ("AK", "IA"), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    ("github-token", ("gh", "p_"), ALNUM, 36),
    ("github-token", ("github_", "pat_"), ALNUM, 82),
    ("gitlab-token", ("gl", "pat-"), ALNUM, 20),
    ("slack-token", ("xo", "xb-"), string.digits, 24),
    ("anthropic-key", ("sk-", "ant-api03-"), ALNUM, 95),
    ("openai-key", ("sk-", "proj-"), ALNUM, 48),
    ("openai-key", ("s", "k-"), ALNUM, 48),
    ("stripe-key", ("sk_", "live_"), ALNUM, 24),
    ("google-key", ("AI", "za"), ALNUM, 35),
    ("npm-token", ("np", "m_"), ALNUM, 36),
    ("pypi-token", ("py", "pi-AgEI"), ALNUM, 120),
    ("huggingface-token", ("h", "f_"), string.ascii_letters, 34),
    ("digitalocean-token", ("dop", "_v1_"), HEX, 64),
    ("databricks-token", ("da", "pi"), HEX, 32),
    ("vault-token", ("hv", "s."), ALNUM, 90),
    ("docker-token", ("dckr_", "pat_"), ALNUM, 27),
    ("sendgrid-key", ("S", "G."), ALNUM, 22),
    ("twilio-key", ("S", "K"), HEX, 32),
    ("openrouter-key", ("sk-", "or-v1-"), HEX, 64),
    ("groq-key", ("gs", "k_"), ALNUM, 52),
    ("grafana-token", ("gl", "sa_"), ALNUM, 41),
    ("linear-key", ("lin_", "api_"), ALNUM, 40),
    ("shopify-token", ("shp", "at_"), HEX, 32),
    ("postman-key", ("PM", "AK-"), HEX, 59),
    ("newrelic-key", ("NR", "AK-"), string.ascii_uppercase, 27),
    ("nvidia-key", ("nv", "api-"), ALNUM, 64),
    ("prefect-key", ("pn", "u_"), ALNUM, 36),
    ("clojars-token", ("CLO", "JARS_"), HEX, 60),
    ("age-key", ("AGE-SECRET", "-KEY-1"), string.ascii_uppercase + "023456789", 58),
    ("sourcegraph-token", ("sg", "p_"), HEX, 40),
)
PLACES = (
    "{}",
    "export THING={}\n",
    'curl -H "X-Thing: {}" https://api.test/v1\n',
    '{{"thing": "{}", "next": 1}}',
    "thing: {}\nother: 2\n",
    "found {} in the log",
    '"{{\\"thing\\":\\"{}\\"}}"',
)
NAMED_PLACES = (
    'API_KEY="{}"\n',
    "api_key: {}\n",
    '  "clientSecret": "{}",\n',
    "export AWS_SECRET_ACCESS_KEY={}\n",
    "const authToken = '{}';\n",
    "AccountName=a;AccountKey={};EndpointSuffix=core\n",
    'TOKEN: str = "{}"\n',
    "<secret>{}</secret>\n",
    "tool --token {} --verbose\n",
)
PASSWORD_PLACES = (
    'password = "{}"\n',
    "DB_PASSWORD={}\n",
    '{{"password": "{}"}}',
    "Server=db;User=sa;Password={};\n",
    "  passwd: {}\n",
    "mysql --password={} shop\n",
    "machine host login ann password {}\n",
)


PLACED = (
    "curl -u ann:{} https://api.test\n",
    "curl -s --user 'ann:{}' https://api.test\n",
    "mysql -u root -p{} shop\n",
    "$ mysqldump -uroot -p'{}' shop > dump.sql\n",
    "db.test:5432:shop:ann:{}\n",
    "*:*:*:ann:{}\n",
    "password: |\n  {}\nuser: ann\n",
    "db:\n  password: >-\n    {}\n  host: db\n",
    "user,password,mail\nann,{},a@b.test\n",
    "| user | password |\n|---|---|\n| ann | {} |\n",
    " user | password \n------+----------\n ann  | {}\n(1 row)\n",
    "USER   PASSWORD       ROLE\nann    {}   admin\n",
    'pass="{}"\n',
    "db_pass: {}\n",
    '"smtpPass": "{}"',
    "DB_PASS={}\n",
    "\x1b[32mpassword\x1b[0m: \x1b[1m{}\x1b[0m\n",
    "docker login -u ann -p {} registry.test\n",
    "sshpass -p {} ssh host\n",
    "Server=db;Uid=sa;Pwd={};\n",
    "jdbc:mysql://db/shop?user=ann&password={}&ssl=1\n",
    "sqlplus scott/{}@db\n",
    "machine host\n  login ann\n  password {}\n",
    "password = '''{}'''\n",
    '<property name="password" value="{}"/>',
    "- name: DB_PASSWORD\n  value: {}\n",
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "define('DB_PASSWORD', '{}');\n",
    "redis-cli -h cache -a {} ping\n",
    "requirepass {}\n",
    "openssl rsa -passin pass:{} -in key.pem\n",
    "7z x -p{} a.7z\n",
    "smbclient -U ann%{} //host/share\n",
    "ldapsearch -x -w {} -b dc=test\n",
    "USER ann\nPASS {}\n230 ok\n",
    "mongosh -u ann -p {} host\n",
    'psk="{}"\n',
    "htpasswd -b users ann {}\n",
)
"""Where a password stands without a name of its own, or with a short one."""

PLACED_KEYS = (
    "name\ttoken\nann\t{}\n",
    "Authorization: Bearer\n  {}\n",
    "Authorization: token {}\n",
    '("Authorization", "Bearer {}")',
    'hmac_key = "{}"\n',
    "AES_KEY={}\n",
    "//registry.test/:_auth={}\n",
    "apiVersion: v1\nkind: Secret\ndata:\n  anything: {}\n",
    "\x1b[1mtoken\x1b[0m=\x1b[31m{}\x1b[0m\n",
)


def placed(random: Random) -> Iterator[tuple[str, str]]:
    """Give a text and the secret in it, where only its place says what it is."""
    for place in PLACED:
        for secret in (
            "k7" + drawn(random, ALNUM, 10),
            drawn(random, string.ascii_lowercase, 6) + "9!x",
        ):
            yield place.format(secret), secret
    for place in PLACED_KEYS:
        secret = "a9" + drawn(random, ALNUM, 30)
        yield place.format(secret), secret
    lines = [drawn(random, ALNUM + "+/", 64) for _ in range(5)]
    inside = "\n".join(lines)
    yield f"$ sed -n 3,7p key.pem\n{inside}\n$ ls\n", lines[2]
    yield f"{inside}\nAbc=\n-----END RSA PRIVATE KEY-----\n", lines[1]
    dump = ":".join(drawn(random, HEX, 2) for _ in range(15))
    yield f"privateExponent:\n    {dump}:\n    {dump}\nprime1:\n    {dump}\n", dump
    token = "gh" + "p_" + drawn(random, ALNUM, 36)
    yield f"found {token[:9]}\x1b[01;31m{token[9:20]}\x1b[0m{token[20:]}\n", token[20:]


def secrets(random: Random) -> Iterator[tuple[str, str, str]]:
    """Yield kind, text and the secret in it."""
    for kind, parts, alphabet, size in PREFIXED:
        for template in PLACES:
            secret = "".join(parts) + drawn(random, alphabet, size)
            if kind == "sendgrid-key":
                secret += "." + drawn(random, ALNUM, 43)
            yield kind, template.format(secret), secret
    for template in NAMED_PLACES:
        for alphabet, size in ((ALNUM, 32), (HEX, 40), (ALNUM + "+/", 44), (URL64, 43)):
            secret = drawn(random, alphabet, size)
            yield "key", template.format(secret), secret
    for template in PASSWORD_PLACES:
        for secret in (drawn(random, ALNUM, 14), drawn(random, string.ascii_lowercase, 7) + "9!x"):
            yield "password", template.format(secret), secret
    yield from structured(random)


def structured(random: Random) -> Iterator[tuple[str, str, str]]:
    for template in PLACES:
        secret = web_token(random)
        yield "json-web-token", template.format(secret), secret
        secret = drawn(random, ALNUM, 12)
        yield "url-password", template.format(f"postgres://ann:{secret}@db.test:5432/shop"), secret
        secret = drawn(random, ALNUM, 40)
        yield "authorization", template.format(f"Authorization: Bearer {secret}"), secret
    for label in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""):
        secret = private_key(random, label)
        yield "private-key", f"$ cat key\n{secret}\n$ ls", secret
        yield "private-key", json.dumps({"key": secret}), json.dumps(secret)[1:-1]
        yield "private-key", secret[:400], secret[:400]
    for form in ("$6$", "$2b$12$", "$argon2id$v=19$"):
        secret = form + drawn(random, ALNUM + "./", 60)
        yield "password-hash", f"root:{secret}:19000:0:99999", secret


def harmless(random: Random) -> Iterator[tuple[str, str]]:
    """Yield a description and a text in which nothing may be masked."""
    for _ in range(20):
        data = random.randbytes(64)
        yield "git sha", f"commit {hashlib.sha1(data).hexdigest()}\nAuthor: Ann"
        yield "sha256", f"sha256:{hashlib.sha256(data).hexdigest()}  file.txt"
        yield "uuid", f'{{"id": "{uuid.UUID(bytes=data[:16])}", "token_count": 17}}'
        yield "npm lock", f'"integrity": "sha512-{base64.b64encode(data).decode()}",'
        yield "poetry lock", f'{{file = "a.whl", hash = "sha256:{data.hex()}"}},'
        yield "cargo lock", f'checksum = "{data[:32].hex()}"'
        yield "go sum", f"example.test/mod v1.2.3 h1:{base64.b64encode(data[:32]).decode()}"
        yield "etag", f'ETag: W/"{data[:16].hex()}"'
        yield "cursor", f'"next_page_token": "{base64.urlsafe_b64encode(data).decode()}"'
    for size in (1_000, 50_000):
        image = base64.b64encode(random.randbytes(size)).decode()
        yield "image", f'<img src="data:image/png;base64,{image}">'
    for line in CODE:
        yield "code", line


CODE = (
    "PASS: tests/a_b.py",
    "pass: 10/12",
    "--- PASS: TestFoo2 (0.00s)",
    "tests pass=12 fail=0",
    'bypass = "cache_v2"',
    'compass="north-12"',
    "first_pass: enabled",
    "TESTS_PASS=142/142",
    "pass the parameters2 on",
    "docker run -p 8080:80 image",
    "mysql -u root -p",
    "mysql -p shop",
    "ssh -p 2222 host && psql -p 5432 -U ann",
    "zip -r a.zip folder; 7z a out.7z folder; redis-cli ping",
    "token,count\nthe,5\nof,7\n",
    "user,password_hint\nann,blue house\n",
    "| token | probability |\n|---|---|\n| hello | 0.12 |",
    "| user | token_count |\n|---|---|\n| ann | 12345678 |",
    "tokens  secrets  id\n12      3        a9\n",
    "main.py:12:5:E501:LineTooLong",
    "src.py:1200:E501:line:too_long2",
    "root:x:0:0:root:/root:/bin/bash",
    "localhost:8080:GET:/index:200",
    "kind: ConfigMap\ndata:\n  a: aGVsbG8=\n",
    "password: |\n  Enter your password here\n",
    "- name: BUILD_ID\n  value: ab12cd34ef\n",
    'curl -u "$USER:$PASS" https://api.test',
    "curl -u ann https://api.test; curl -u ann:<password> https://api.test",
    'sshpass -p "$PW" ssh host; sshpass -e ssh host; openssl rsa -passin env:PW',
    "Authorization: Bearer $TOKEN\nAuthorization: Bearer <token>",
    "authorization: bearer authentication required",
    "self.check('http', 'user/name', 'password', 'localhost:22')",
    "names = ['version', 'grp', 'pwd', 'symlink_exception']",
    "login(user, password,\n      request_handler.command2, x)",
    'password = os.environ["DB_PASSWORD"]',
    "password: str | None = None",
    "def login(user: str, password: str) -> Token:",
    "token = tokens[position1]",
    "self.password = self._read_password2(prompt)",
    "token=$GITHUB_TOKEN",
    'api_key = "<your api key>"',
    'api_key: "${API_KEY}"',
    "SECRET_KEY = config.get('SECRET_KEY')",
    'password = "changeme"',
    'PASSWORD = "********"',
    "max_tokens: 4096, token_count=123456789012345678",
    "The token is expired; the password was changed on 2024-05-01.",
    '"password": "Enter your new password please",',
    "Enter password: ",
    'type="password" name="login" id="login-password-field-1"',
    "access_key = settings.storage.access_key_v2",
    'secretName: "my-service-secret-2024"',
    "secret: kubernetes-dashboard-token-v2",
    "git clone https://github.com/ann/repo.git && cd repo@1.2.3",
    "image: registry.test:5000/team/app@sha256:" + "ab" * 32,
    "ssh://git@host.test:22/repo.git",
    "http://localhost:8080/@scope/package",
    "https://user:password@host/path",
    "-----BEGIN CERTIFICATE-----\nMIIB" + "A1b2" * 20 + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB" + "A1b2" * 20 + "\n-----END PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "B3xY" * 8 + " ann@host",
    "sk-learn and task-runner-with-a-long-name-of-many-words",
    "basic authorization with the bearer of the token",
    "passwordless_login_enabled_for_2024=true",
    "csrf_token_input.value.length > 16",
)


def drawn(random: Random, alphabet: str, size: int) -> str:
    """Draw characters; the last two are a letter and a digit where the alphabet has both."""
    characters = random.choices(alphabet, k=size)
    if "a" in alphabet and "7" in alphabet:
        characters[-2:] = "a7"
    return "".join(characters)


def web_token(random: Random) -> str:
    def encoded(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": drawn(random, ALNUM, 12), "exp": random.getrandbits(31)}
    head = encoded({"alg": "HS256", "typ": "JWT"})
    return f"{head}.{encoded(claims)}.{drawn(random, URL64, 43)}"


def private_key(random: Random, label: str) -> str:
    body = base64.encodebytes(random.randbytes(600)).decode().replace("\n\n", "\n")
    begin, end = ("-----" + word + f" {label}PRIVATE" + " KEY-----" for word in ("BEGIN", "END"))
    return f"{begin}\n{body}{end}"
